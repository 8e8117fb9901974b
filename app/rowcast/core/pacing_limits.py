"""Limits of the pace of readers.

They bound what a schema declares and what a client asks for.
"""

from typing import Final

CONFLATE_SECONDS_MIN: Final = 0.01
"""The shortest interval between values of a record: some turns of a busy loop."""
CONFLATE_SECONDS_MAX: Final = 60.0
"""The longest one: other events of a reader wait behind those that wait."""
