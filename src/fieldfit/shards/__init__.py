"""A problem as a sum over shards: pieces of the samples that are evaluated where they are.

A *shard* is a piece of the samples, with its drawn Z compiled by the same code as on one machine. A *backend* holds the
shards: in this process (`LocalBackend`), or on the workers of a Dask cluster (`DaskBackend`). An evaluation sends θ to the
shards and adds up what they answer along a binary tree whose shape depends on the number of shards only. So the result has
the same bits for any number of workers, and for any assignment of shards to workers.
"""
