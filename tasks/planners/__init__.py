"""Planners turn an objective into a plan."""
