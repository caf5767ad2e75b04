"""Market data: the store and its sources."""
