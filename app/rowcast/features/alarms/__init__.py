"""Alarms: conditions on records that are raised, acknowledged, shelved and cleared."""
