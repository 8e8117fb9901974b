"""The feature: a repeated write has one effect and the same answer (B17, M8, H25)."""

from rowcast.features.idempotency.idempotency_keys import OWNER as KEYS
from rowcast.features.idempotency.idempotency_keys import Keys
from rowcast.features.idempotency.idempotent_writes import (
    BOUNDS,
    MARKS,
    OWNER,
    IdempotentWrites,
    ProducerBounds,
    remember_mark,
)
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel

KEY_SECONDS: float = 86_400
"""Lifetime of an idempotency key: a day, as usual."""


class Idempotency(Feature):
    """The producers and the idempotency keys of one server.

    ``key_seconds`` is the lifetime of a key; ``key_limits`` are the limits of ``Keys``, and
    ``producers`` those of producers.
    """

    def __init__(
        self,
        key_seconds: float = KEY_SECONDS,
        producers: ProducerBounds = BOUNDS,
        **key_limits: int,
    ) -> None:
        self._producers = producers
        self._key_seconds = key_seconds
        self._key_limits = key_limits

    def install(self, kernel: Kernel) -> None:
        """Check each marked write first, and store its receipt."""
        keys = Keys(kernel, kernel.now, self._key_seconds, **self._key_limits)
        keys.ends = kernel.schedule_expiry
        kernel.expiry_sources.append(keys)
        writes = self.writes = IdempotentWrites(kernel, keys, self._producers)
        for name in MARKS:
            kernel.steps.on_property(name, writes.answer_repeat, first=True)
            kernel.steps.on_property(name, remember_mark)
        kernel.facts(OWNER, writes.restore)
        kernel.facts(KEYS, keys.restore)
        kernel.provide(writes)
