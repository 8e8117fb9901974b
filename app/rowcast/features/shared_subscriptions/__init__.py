"""Shared subscriptions: one cursor whose events are distributed to members."""
