"""Deadlines: records that have been silent for too long are stale."""
