"""Snapshots: the tables as Parquet files, whole at one cut and as pages of the log after it."""
