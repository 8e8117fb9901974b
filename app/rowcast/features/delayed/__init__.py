"""Delayed publish: writes that are kept now and submitted when they are due."""
