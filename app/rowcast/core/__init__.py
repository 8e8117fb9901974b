"""Floor 0, the words: data without I/O, clocks or randomness of its own."""
