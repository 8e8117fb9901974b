"""The environment variables of a Spark program; only this module reads or sets them.

PySpark starts Java and Python workers with this process's environment; their settings can only be
passed there.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

URL: Final = "ROWCAST_URL"
"""The server's URL, as for the command line."""
CACHE: Final = "rowcast"


def variables() -> Mapping[str, str]:
    """Return all variables."""
    return dict(os.environ)


def put(values: Mapping[str, str]) -> None:
    """Set variables for this process and its child processes."""
    os.environ.update(values)


def server_url() -> str | None:
    """Return the server's URL, if the environment has one."""
    return os.environ.get(URL)


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Return the user's cache directory."""
    base = environment.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / CACHE
