"""The gate: rules that decide and cannot be talked to."""
