"""The archive of the log as Parquet: one file for each range of a part of the log."""
