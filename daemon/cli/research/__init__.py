"""Commands that simulate, train and reproduce, without a daemon."""
