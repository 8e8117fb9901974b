"""Shared subscriptions: one cursor whose events are dealt to members in turn."""
