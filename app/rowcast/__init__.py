"""Rowcast: every row is a topic, every topic is a row."""

__version__ = "0.1.0"
