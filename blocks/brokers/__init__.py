"""Brokers behind one protocol."""
