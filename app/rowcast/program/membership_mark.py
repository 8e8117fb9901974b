"""A file in the data directory of a node: which cluster its tables belong to.

Without it a node that is started as a server of its own would write a second history under the same
cursors. A backup has the file, and so has what is restored to follow the same log.
"""

import json
from pathlib import Path
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.store.private import make_file

FILE: Final = "cluster.json"


def mark(data: Path, name: str, epoch: str) -> None:
    """Note that tables belong to a cluster. Raises CONFLICT if they belong to another one."""
    known = marked(data)
    if known not in {"", name}:
        raise Error(
            Code.CONFLICT,
            f"the tables in {data} are those of the cluster {known}, and not of {name}; name that "
            "one with --cluster, or another directory with --data",
        )
    if not known:
        make_file(data / FILE)
        (data / FILE).write_text(json.dumps({"name": name, "epoch": epoch}) + "\n")


def marked(data: Path) -> str:
    """Return the cluster that tables belong to; empty for those of a server of its own."""
    try:
        return str(json.loads((data / FILE).read_text())["name"])
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Error(Code.INVALID, f"{data / FILE} cannot be read; restore it") from error


def check_alone(data: Path) -> None:
    """Raise CONFLICT where a server of its own would change the tables of a cluster."""
    if known := marked(data):
        raise Error(
            Code.CONFLICT,
            f"the tables in {data} are those of a node of the cluster {known}; start it with "
            "--cluster, or make a server of its own from a backup: rowcast restore",
        )
