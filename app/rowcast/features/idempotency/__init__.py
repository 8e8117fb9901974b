"""Idempotent writes: a repeat of a write is known and answered as the first was."""
