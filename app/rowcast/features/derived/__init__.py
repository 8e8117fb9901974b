"""Derived tables: rows that a job makes from a snapshot of other tables (W4, M5)."""
