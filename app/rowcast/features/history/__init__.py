"""What was: the log and the records as of then, as pages, windows and series."""
