"""The thought: pure code, and one file that shows it to Prefect."""
