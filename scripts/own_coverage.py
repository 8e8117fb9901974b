"""Coverage of each module by its own tests: what other tests happen to run does not count.

All tests of a room run once; coverage notes which test ran which line (dynamic contexts), and
each module is then reported with the contexts of its own test files only.
"""

import io
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from coverage import Coverage
from coverage.exceptions import NoDataError

ROOT = Path(__file__).parent.parent
APP = ROOT / "app" / "rowcast"
ROOMS = (
    "core", "schema", "codecs", "mqtt", "auth", "bus", "store", "writes", "seams", "routes",
    "kernel",
)  # fmt: skip
ENOUGH = 100.0
SETTINGS = """
[run]
branch = true
core = ctrace
dynamic_context = none
[report]
show_missing = true
exclude_also =
    class .*\\(Protocol\\):
    if TYPE_CHECKING:
    @overload
"""


def main() -> int:
    """Measure the rooms named on the command line, or all; return the exit code."""
    missing = "--missing" in sys.argv
    rooms = [room for room in sys.argv[1:] if not room.startswith("-")] or ROOMS
    low = []
    with TemporaryDirectory() as folder:
        settings = Path(folder, "coveragerc")
        settings.write_text(SETTINGS)
        for room in rooms:
            if not any((ROOT / "tests" / room).glob("test_*.py")):
                continue
            data = Path(folder, f"{room}.coverage")
            _run(room, data, settings)
            low += [module for module in _modules(room) if not _report(module, data, missing)]
    print(f"\n{len(low)} modules below {ENOUGH:.0f} %" if low else "\nall covered")
    return 1 if low else 0


def _run(room: str, data: Path, settings: Path) -> None:
    """Run the room's tests with coverage on; a red test is no reason not to measure."""
    command = [
        sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider",
        f"tests/{room}", f"--cov=rowcast.{room}", "--cov-report=", "--cov-context=test",
        f"--cov-config={settings}",
    ]  # fmt: skip
    environment = {"COVERAGE_FILE": str(data)}
    result = subprocess.run(command, cwd=ROOT, env=_environment(environment), check=False)
    if result.returncode:
        print(f"(tests of {room} ended with exit code {result.returncode})")


def _environment(more: dict[str, str]) -> dict[str, str]:
    import os  # noqa: PLC0415 - only to pass it on

    return os.environ | more


def _modules(room: str) -> list[Path]:
    return sorted(path for path in (APP / room).rglob("*.py") if path.read_text().strip())


def _contexts(module: Path) -> list[str]:
    """Return patterns of the contexts that count: import time, and the module's own tests."""
    folder = ROOT / "tests" / module.relative_to(APP).parts[0]
    own = [path.name for path in folder.glob(f"test_*{module.stem}*.py")]
    files = "|".join(re.escape(name) for name in own) or r"test_\w+\.py"
    return ["^$", rf"/({files})::"]


def _report(module: Path, data: Path, missing: bool) -> bool:
    """Print a module's line; tell whether it is covered."""
    measured = Coverage(data_file=data, config_file=str(data.parent / "coveragerc"))
    measured.load()
    text = io.StringIO()
    try:
        percent = measured.report(
            include=[str(module)], contexts=_contexts(module), file=text, show_missing=True
        )
    except NoDataError:
        percent = 0.0
    covered = percent >= ENOUGH
    print(f"{'  ' if covered else '- '}{percent:6.1f} %  {module.relative_to(ROOT)}")
    if missing and not covered:
        lines = [line for line in text.getvalue().splitlines() if line.startswith(("app/", "/"))]
        print("".join(f"             {line.split('%')[-1].strip()}\n" for line in lines), end="")
    return covered


if __name__ == "__main__":
    sys.exit(main())
