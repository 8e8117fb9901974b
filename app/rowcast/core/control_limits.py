"""Bounds of commands at ``$CONTROL``; the rest of ``limits`` and by its rules."""

CONTROL_COMMANDS_MAX = 100
"""Commands of one message: each may hash a password, which takes some fifty milliseconds."""
