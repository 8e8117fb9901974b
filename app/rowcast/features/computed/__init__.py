"""Computed attributes whose values come from functions in ``resources/``."""
