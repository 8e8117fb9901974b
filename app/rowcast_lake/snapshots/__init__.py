"""Snapshots: the tables as Parquet files: complete at one cut, and pages of the log after it."""
