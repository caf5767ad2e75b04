"""Language models: one door, with a price list, a budget and a record of every call."""
