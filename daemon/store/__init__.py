"""The job store: opening, transactions, terms, and the operations that the daemon calls."""
