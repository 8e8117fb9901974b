"""Stores: places in object stores, with what is used of ``pathlib.Path``."""
