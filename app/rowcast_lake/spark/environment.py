"""The environment of a Spark program, which Spark's own launcher reads: one place that touches it.

PySpark starts Java and Python workers with this process's environment, so what they must find has
to be put there; there is no argument for it.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

URL: Final = "ROWCAST_URL"
"""Where the server is, as for the command line."""
CACHE: Final = "rowcast"


def variables() -> Mapping[str, str]:
    """Return what is set."""
    return dict(os.environ)


def put(values: Mapping[str, str]) -> None:
    """Set these for this process and for those it starts."""
    os.environ.update(values)


def server_url() -> str | None:
    """Return where the server is, if the environment says so."""
    return os.environ.get(URL)


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Return where this user's programs keep what can be made again."""
    base = environment.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / CACHE
