"""The feature: a write that comes again has one effect and the same answer (B17, M8, H25)."""

from rowcast.features.idempotency.idempotency_keys import OWNER as KEYS
from rowcast.features.idempotency.idempotency_keys import Keys
from rowcast.features.idempotency.idempotent_writes import (
    MARKS,
    OWNER,
    IdempotentWrites,
    remember_mark,
)
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel

KEY_SECONDS: float = 86_400
"""How long an idempotency key is known: a day, as other services do."""


class Idempotency(Feature):
    """The producers and the idempotency keys of one server.

    ``key_seconds`` is how long a key is known; ``key_limits`` are the limits of ``Keys``.
    """

    def __init__(self, key_seconds: float = KEY_SECONDS, **key_limits: int) -> None:
        self._key_seconds = key_seconds
        self._key_limits = key_limits

    def install(self, kernel: Kernel) -> None:
        """Ask about each marked write before anything else does, and remember what was written."""
        keys = Keys(kernel, kernel.now, self._key_seconds, **self._key_limits)
        keys.ends = kernel.tell_end
        kernel.endings.append(keys)
        writes = self.writes = IdempotentWrites(kernel, keys)
        for name in MARKS:
            kernel.steps.on_property(name, writes.hear_write, first=True)
            kernel.steps.on_property(name, remember_mark)
        kernel.facts(OWNER, writes.restore)
        kernel.facts(KEYS, keys.restore)
        kernel.provide(writes)
