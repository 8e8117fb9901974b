"""Where a record that a job has written comes from: told as its writer, on every door (M5).

The writer of such a record is ``job/<name>@<cut>``; metadata shows the cut as ``_from_cut``.
"""

from typing import Final

JOB: Final = "job/"
FROM_CUT: Final = "_from_cut"


def client_of(job: str, cut: str) -> str:
    """Return the writer's name of what a job has computed from a cut."""
    return f"{JOB}{job}@{cut}"


def cut_of(client: str) -> str:
    """Return what a writer's record was computed from; empty if no job wrote it."""
    return client.rpartition("@")[2] if client.startswith(JOB) else ""


def is_of(client: str, job: str) -> bool:
    """Tell whether a record's writer is this job."""
    return client.startswith(f"{JOB}{job}@")
