"""Idempotent writes: a repeated write is detected and gets the first answer."""
