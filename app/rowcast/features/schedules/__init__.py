"""Schedules: functions in ``resources/`` that are called at the multiples of a period."""
