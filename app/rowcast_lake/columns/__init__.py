"""Columns: types of Parquet columns of different ages, brought together."""
