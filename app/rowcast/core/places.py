"""Places: what is said where files are, and what is no directory of this machine.

``Path("s3://bucket/x")`` is a directory called ``s3:``, so a URL would be taken for a path, and
what is written there found by nobody.
"""

import re
from typing import Final

from rowcast.core.errors import Code, Error

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""With one slash too: that is what is left of a URL that was made a path. One letter is a drive."""


def is_url(text: str) -> bool:
    """Tell whether a place is said as a URL."""
    return _SCHEME.match(text) is not None


def check_local(text: str, name: str) -> None:
    """Raise INVALID for a place that is no path of this machine; ``name`` is the option's."""
    if is_url(text):
        raise Error(Code.INVALID, f"{name}: {not_local(text)}")


def not_local(text: str) -> str:
    """Return what is wrong with a URL where a path is needed, and what to do."""
    scheme, _, rest = text.partition(":")
    if scheme.lower() == "file":
        return f"{text} is a URL; write the path alone, /{rest.lstrip('/')}"
    return (
        f"{text} is a URL, and files are read and written at paths of this machine only; name a "
        f"directory, and copy it from or to {scheme}:// with a tool of that store (aws s3 sync, "
        "rclone copy), or mount the store and name the directory it is mounted at"
    )
