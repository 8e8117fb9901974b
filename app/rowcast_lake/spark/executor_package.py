"""The package for executors: what of Rowcast runs in Spark's Python workers, and no server.

A wheel, for an environment that has pip; and a zip for ``--py-files``, which has pure packages that
the part needs besides, because nothing can be installed there. Modules are found by their imports,
so what a change of the code needs comes along. All of it is Python: it runs on any machine.
"""

import ast
import hashlib
import re
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from rowcast import __version__
from rowcast.core.errors import Code, Error

APP: Final = Path(__file__).parent.parent.parent
ROOMS: Final = ("pyspark_rowcast", "rowcast_lake/spark", "rowcast_lake/stores")
"""What executors import by name; the rest follows from these."""
OURS: Final = ("rowcast", "rowcast_client", "rowcast_lake", "pyspark_rowcast")
BUNDLED: Final = (
    "anyio", "certifi", "graphql-core", "h11", "httpcore", "httpx", "idna", "typing_extensions",
)  # fmt: skip
"""Packages in the zip; of those with compiled parts, workers need their own."""
NATIVE: Final = ("orjson", "pyarrow")
NEEDED: Final = ("graphql-core", "httpx", *NATIVE)
EMPTIED: Final = ("rowcast/codecs/__init__.py", "rowcast_client/__init__.py")
"""They import every codec, with compiled packages; a worker imports single modules by name."""
KEPT: Final = re.compile(r"\.(py|pem|typed|properties)$|METADATA$|licen[cs]e", re.IGNORECASE)
MOMENT: Final = (1980, 1, 1, 0, 0, 0)
"""The time of each file: the same sources give the same bytes."""


def make_package(place: Path) -> list[Path]:
    """Write the wheel and the zip into a directory; return both."""
    place.mkdir(parents=True, exist_ok=True)
    name = f"rowcast_lake-{__version__}"
    own = _own_files()
    wheel = place / f"{name}-py3-none-any.whl"
    _write(wheel, own | _wheel_facts(name, own))
    bundle = place / f"{name}.zip"
    _write(bundle, own | dict(_bundled()))
    return [wheel, bundle]


def _write(place: Path, files: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, MOMENT), content, zipfile.ZIP_DEFLATED)


def _own_files() -> dict[str, bytes]:
    """Return the modules of the rooms, and those that they import."""
    waiting = [file for room in ROOMS for file in (APP / room).rglob("*") if KEPT.search(file.name)]
    found = dict[str, bytes]()
    while waiting:
        file = waiting.pop()
        name = file.relative_to(APP).as_posix()
        if name in found or not file.is_file():  # an import may name what is in a module
            continue
        emptied = name in EMPTIED
        found[name] = b'"""Single modules."""\n' if emptied else file.read_bytes()
        waiting += [parent / "__init__.py" for parent in file.parents if parent.is_relative_to(APP)]
        if file.suffix == ".py":
            waiting += _imported(found[name])
    return dict(sorted(found.items()))


def _imported(source: bytes) -> Iterator[Path]:
    """Yield the files of our modules that a module imports, also late."""
    tree = ast.parse(source)
    typing = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {item.name for item in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node not in typing:
            names |= {node.module, *(f"{node.module}.{item.name}" for item in node.names)}
    for name in names:
        if name.partition(".")[0] in OURS:
            path = APP / name.replace(".", "/")
            yield from (path.with_suffix(".py"), path / "__init__.py")


def _bundled() -> Iterator[tuple[str, bytes]]:
    """Yield the files of the packages that the zip brings along, with their licences."""
    for name in BUNDLED:
        try:
            package = distribution(name)
        except PackageNotFoundError as error:
            raise Error(Code.UNSUPPORTED, f"the zip needs the package {name}: {error}") from error
        for file in package.files or ():
            if KEPT.search(file.name) and ".." not in file.parts:
                yield str(file), Path(str(package.locate_file(file))).read_bytes()


def _wheel_facts(name: str, own: dict[str, bytes]) -> dict[str, bytes]:
    """Return what makes a zip a wheel: its name and needs, and the hash of each file."""
    needs = distribution("rowcast").requires or []
    plain = {text.partition(";")[0].strip() for text in needs}
    chosen = sorted(text for text in plain if re.split(r"[<>=!~\[ ]", text)[0] in NEEDED)
    lines = [
        "Metadata-Version: 2.4", "Name: rowcast-lake", f"Version: {__version__}",
        "Summary: Rowcast for Spark's executors: the format rowcast, without the server.",
        "License-Expression: Apache-2.0", "Requires-Python: >=3.11",
        *(f"Requires-Dist: {text}" for text in chosen),
    ]  # fmt: skip
    tags = ["Wheel-Version: 1.0", "Generator: rowcast", "Root-Is-Purelib: true"]
    folder = f"{name}.dist-info"
    facts = {
        f"{folder}/METADATA": "\n".join(lines).encode() + b"\n",
        f"{folder}/WHEEL": "\n".join([*tags, "Tag: py3-none-any", ""]).encode(),
    }
    record = [f"{path},sha256={_hash(data)},{len(data)}" for path, data in (own | facts).items()]
    facts[f"{folder}/RECORD"] = "\n".join([*record, f"{folder}/RECORD,,", ""]).encode()
    return facts


def _hash(content: bytes) -> str:
    return urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
