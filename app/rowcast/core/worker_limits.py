"""Limits of child processes; see ``limits``."""

WORKER_CALL_SECONDS_MAX = 60.0
"""Of one call: hundreds of times what one takes on an idle machine; a child that hangs is ended."""
WORKER_IDLE_SECONDS = 60.0
"""Without a call, until a child ends: it starts again in a tenth of a second, and its memory is
given back."""
