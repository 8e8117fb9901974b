"""Floor 0: the domain types; data without I/O, clocks or randomness."""
