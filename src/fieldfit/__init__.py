"""fieldfit: Markov and conditional random fields by stochastic composite likelihood."""

__version__ = "0.1.0"
