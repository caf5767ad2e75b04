"""The order: one file is one flow."""
