"""Limits of commands at ``$CONTROL``; see ``limits``."""

from typing import Final

CONTROL_COMMANDS_MAX: Final = 100
"""Commands of one message: each may hash a password, which takes some fifty milliseconds."""
