"""Object paths: places in an object store, with what is used of ``pathlib.Path``.

    s3://bucket/prefix     read and written by pyarrow's file system

Keys, endpoint, region and role are those that AWS's own environment variables and files name
(``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``, ``AWS_REGION``, ``AWS_PROFILE``, ...); pyarrow and the
AWS SDK read them, so they are in no setting, URL or manifest. Timeouts and the three attempts of
a request are the SDK's. What is written exists when it is closed; beyond 10 MB it is sent in parts
(multipart).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from posixpath import normpath
from typing import IO, Any, Final, cast
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from rowcast.core.errors import Code, Error

SCHEME: Final = "s3"
SMALL_IN_ONE: Final = "allow_delayed_open=true"
"""Lets pyarrow write a small object by one request; an upload in parts takes three."""
Files = Any
"""A ``pyarrow.fs.FileSystem``."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Size in bytes, and time of the last write in seconds since 1970."""

    st_size: int
    st_mtime: float


@dataclass(frozen=True)
class ObjectPath:
    """A key of a bucket, or what keys begin with."""

    files: Files
    key: str
    """``bucket/prefix/name``."""

    @classmethod
    def of(cls, url: str) -> "ObjectPath":
        """Return the place of a URL; raises INVALID."""
        parts = urlsplit(url)
        if parts.scheme != SCHEME or not parts.netloc or parts.query or set("@:") & {*parts.netloc}:
            raise _no_place(url)
        place = f"{SCHEME}://{parts.netloc}{parts.path.rstrip('/')}"
        try:
            files, key = fs.FileSystem.from_uri(f"{place}?{SMALL_IN_ONE}")
        except pa.ArrowInvalid:
            raise _no_place(url) from None
        return cls(files, key)

    def __str__(self) -> str:
        return f"{SCHEME}://{self.key}"

    def __truediv__(self, name: str) -> "ObjectPath":
        key = f"{self.key}/{name}"  # keys have no parents, so `..` is resolved here
        return ObjectPath(self.files, normpath(key) if ".." in name.split("/") else key)

    @property
    def parent(self) -> "ObjectPath":
        """What is before the last part of the key."""
        return ObjectPath(self.files, self.key.rpartition("/")[0])

    def beside(self, name: str) -> "ObjectPath":
        """Return what has this name in place of the last part of the key."""
        return ObjectPath(self.files, f"{self.key.rpartition('/')[0]}/{name}")

    @property
    def bucket(self) -> "ObjectPath":
        """The bucket of the key."""
        return ObjectPath(self.files, self.key.partition("/")[0])

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.rpartition("/")[2]

    def iterdir(self) -> Iterator["ObjectPath"]:
        """Return what is directly below it."""
        yield from (path for path, _ in self.listed())

    def listed(self, *, deep: bool = False) -> list[tuple["ObjectPath", Facts | None]]:
        """Return what is below it, each object with its facts; None for the beginning of keys."""
        selector = fs.FileSelector(self.key, allow_not_found=True, recursive=deep)
        return [
            (ObjectPath(self.files, item.path), _facts(item))
            for item in self.files.get_file_info(selector)
        ]

    def rglob(self, _pattern: str = "*") -> Iterator["ObjectPath"]:
        """Return every object below it."""
        yield from (path for path, facts in self.listed(deep=True) if facts is not None)

    def relative_to(self, other: "ObjectPath") -> "ObjectPath":
        """Return the rest of the key behind another."""
        return ObjectPath(self.files, self.key.removeprefix(f"{other.key}/"))

    def as_posix(self) -> str:
        """Return the key."""
        return self.key

    def is_dir(self) -> bool:
        """Whether keys begin with it."""
        return bool(self.files.get_file_info(self.key).type == fs.FileType.Directory)

    def is_file(self) -> bool:
        """Whether there is an object of this key."""
        return bool(self.files.get_file_info(self.key).type == fs.FileType.File)

    def stat(self) -> Facts:
        """Return the facts of an object; raises FileNotFoundError."""
        facts = _facts(self.files.get_file_info(self.key))
        if facts is None:
            raise FileNotFoundError(2, "there is no such object", str(self))
        return facts

    def open(self, _mode: str = "rb") -> IO[bytes]:
        """Open an object for reading."""
        return cast("IO[bytes]", self.files.open_input_file(self.key))

    def read_bytes(self) -> bytes:
        """Return an object's content."""
        with self.files.open_input_stream(self.key) as stream:
            return bytes(stream.read())

    def read_text(self, encoding: str = "utf-8") -> str:
        """Return an object's content as text."""
        return self.read_bytes().decode(encoding)

    def read_end(self, size: int) -> bytes:
        """Return so many of the last bytes of an object, or all."""
        with self.files.open_input_file(self.key) as file:
            begin = max(0, file.size() - size)
            return bytes(file.read_at(size, begin))

    def chunks(self, size: int) -> Iterator[bytes]:
        """Yield an object's content, so many bytes at a time."""
        with self.files.open_input_stream(self.key) as stream:
            while chunk := stream.read(size):
                yield chunk

    def copy(self, target: "ObjectPath") -> None:
        """Copy an object; the store does it."""
        self.files.copy_file(self.key, target.key)

    def move(self, target: "ObjectPath") -> None:
        """Copy an object, and remove it here."""
        self.files.move(self.key, target.key)

    def copy_from(self, path: Path) -> None:
        """Write a file's content as an object, in one step."""
        with pa.memory_map(str(path)) as file, self.create() as stream:
            stream.write(file.read_buffer())

    def create(self) -> Any:
        """Return a stream whose content is the object when it is closed."""
        return self.files.open_output_stream(self.key)

    def write_bytes(self, content: bytes) -> None:
        """Write an object, in one step."""
        with self.create() as stream:
            stream.write(content)

    def remove(self) -> None:
        """Remove an object, if it is there, and all whose keys begin with it and a slash."""
        if self.is_file():
            self.files.delete_file(self.key)
        else:
            self.files.delete_dir_contents(self.key, missing_dir_ok=True)
            if self.is_dir():
                self.files.delete_dir(self.key)


Directory = Path | ObjectPath
"""Where files are: on a disk, or in a store."""


def _no_place(url: str) -> Error:
    """Return the refusal of a URL; logs and rows show it, so it has no keys and parameters."""
    scheme, slashes, rest = url.partition("?")[0].partition("://")
    return Error(
        Code.INVALID,
        f"{scheme}{slashes}{rest.rpartition('@')[2]}: write s3://bucket/prefix; keys, endpoint and "
        "region are named by AWS's own variables, such as AWS_ACCESS_KEY_ID and AWS_ENDPOINT_URL",
    )


def _facts(item: Any) -> Facts | None:
    return Facts(item.size, item.mtime.timestamp()) if item.is_file else None


@contextmanager
def refusing(
    place: ObjectPath, kinds: tuple[type[Exception], ...] = (OSError, pa.ArrowException)
) -> Iterator[None]:
    """Turn what a store can answer into an Error: BUSY."""
    try:
        yield
    except kinds as error:
        raise Error(
            Code.BUSY,
            f"{place} cannot be reached or written: {error}; see AWS_ENDPOINT_URL, AWS_REGION and "
            "the keys, and whether the bucket is there",
        ) from error
