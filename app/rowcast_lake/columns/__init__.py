"""Columns: one common type for Parquet columns that were written under different schemas."""
