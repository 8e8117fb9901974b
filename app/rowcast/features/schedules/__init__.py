"""Schedules: functions in ``resources/`` that are called periodically."""
