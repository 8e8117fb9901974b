"""A computation: the function of ``resources/`` that computes one attribute (A9).

Functions are code of others, called for each record that is read. What one raises is logged and
counted here, and never reaches a reader.
"""

import inspect
import logging
from collections.abc import Callable
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.seams.user_code import is_mistake

FAILURES_LOGGED_MAX: Final = 10
"""Failures of one function that are logged: it may fail for each record of each query. All are
counted."""

log = logging.getLogger("rowcast.computed")


class Computation:
    """A function for an attribute, which ``label`` names as ``Order.total``."""

    def __init__(self, label: str, function: Callable[[dict[str, object]], object]) -> None:
        if label.count(".") != 1 or not all(label.split(".")):
            raise Error(
                Code.INVALID,
                f"@computed is for a method of a class that is named as its table, or names the "
                f'attribute, as in @computed("Order.total"); not {label[:100]!r}',
            )
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise Error(
                Code.INVALID,
                f"the function for {label} is asynchronous; a value is computed while a record is "
                "read, so write it with def, and without waiting",
            )
        self.label = label
        self._function = function
        self.failures = 0

    def value(self, record: dict[str, object]) -> object:
        """Return the value for a record; raises INTERNAL when the function fails.

        Also by SystemExit, as of ``sys.exit``, which would end the server.
        """
        try:
            return self._function(record)
        except BaseException as error:
            if not is_mistake(error):
                raise
            if self.failures < FAILURES_LOGGED_MAX:
                log.exception("%s is null: its function failed", self.label)
            raise Error(Code.INTERNAL, "its function failed") from error

    def failed(self, error: Error) -> None:
        """Count that there was no value, and log why; ``value`` has logged what it caught."""
        self.failures += 1
        if error.code is not Code.INTERNAL and self.failures <= FAILURES_LOGGED_MAX:
            log.warning("%s is null: %s", self.label, error.message[:500])
