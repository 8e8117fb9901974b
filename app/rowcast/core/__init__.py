"""The domain types; data without I/O, clocks or randomness."""
