"""Building blocks of settings, for those of the program and of features."""
