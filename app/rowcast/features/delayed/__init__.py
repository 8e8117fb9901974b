"""Delayed publish: writes that are stored and submitted when due."""
