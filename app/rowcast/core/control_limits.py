"""Limits of commands at ``$CONTROL``; see ``limits``."""

CONTROL_COMMANDS_MAX = 100
"""Commands of one message: each may hash a password, which takes some fifty milliseconds."""
