"""Executors carry out the steps of a plan."""
