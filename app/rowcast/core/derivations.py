"""A derived table, as data: which job makes it, from which tables, how often.

``schema`` reads it from ``@derived``; ``features/derived`` runs the job.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DerivedRule:
    """One ``@derived``; the time in seconds."""

    job: str
    """The file of the job: ``jobs/hourly.py``, where ``jobs/`` stands for the directory of jobs."""
    sources: tuple[str, ...]
    """The names of the tables whose snapshot the job reads."""
    every_seconds: float
