"""Slow subscribers: who is given events later than it should be."""
