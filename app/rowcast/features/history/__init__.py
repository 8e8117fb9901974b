"""History: the log and past records, as pages, windows and time series."""
