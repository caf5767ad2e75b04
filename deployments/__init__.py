"""When: every way in."""
