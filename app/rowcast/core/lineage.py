"""Lineage: the job and the cut that a record was computed from, encoded in its writer (M5).

The writer of such a record is ``job/<name>@<cut>``; metadata shows the cut as ``_from_cut``.
"""

from typing import Final

JOB: Final = "job/"
FROM_CUT: Final = "_from_cut"


def client_of(job: str, cut: str) -> str:
    """Return the writer's name for results that a job computed from a cut."""
    return f"{JOB}{job}@{cut}"


def cut_of(client: str) -> str:
    """Return the cut that a record was computed from; empty if no job wrote it."""
    return client.rpartition("@")[2] if client.startswith(JOB) else ""


def is_of(client: str, job: str) -> bool:
    """Whether a record's writer is this job."""
    return client.startswith(f"{JOB}{job}@")
