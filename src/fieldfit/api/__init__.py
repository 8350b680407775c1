"""The public functions: they assemble the pieces and are the only place that knows all of them."""
