"""Triggers: functions and webhooks that are called for each event at some topics."""
