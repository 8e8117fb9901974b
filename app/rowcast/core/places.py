"""Places: distinguishes URLs from local paths.

``Path("s3://bucket/x")`` is a directory called ``s3:``, so a URL taken for a path would hide what
is written there.
"""

import re
from typing import Final

from rowcast.core.errors import Code, Error

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""With one slash, too: ``Path`` collapses two. A single letter is a drive."""


def is_url(text: str) -> bool:
    """Whether a place is a URL."""
    return _SCHEME.match(text) is not None


def is_object_store(text: str) -> bool:
    """Whether a place is in an object store that is read and written: s3://bucket/prefix."""
    return text.lower().startswith("s3://")


def check_local(text: str, name: str) -> None:
    """Raise INVALID for a place that is no local path; ``name`` is the option's."""
    if is_url(text):
        raise Error(Code.INVALID, f"{name}: {not_local(text)}")


def not_local(text: str) -> str:
    """Return the error message for a URL where a path is required."""
    scheme, _, rest = text.partition(":")
    if scheme.lower() == "file":
        return f"{text} is a URL; write the path alone, /{rest.lstrip('/')}"
    return (
        f"{text} is a URL, and files are read and written at paths of this machine only; name a "
        f"directory, and copy it from or to {scheme}:// with a tool of that store (aws s3 sync, "
        "rclone copy), or mount the store and name the directory it is mounted at"
    )
