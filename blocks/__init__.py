"""The world: one door a file."""
