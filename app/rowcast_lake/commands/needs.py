"""What commands on Parquet files need before they begin: pyarrow, and a schema that can be read.

It imports neither: a command says in words what is missing, and does so at once.
"""

from importlib.util import find_spec
from pathlib import Path

from rowcast.core.errors import Code, Error


def schema_text(path: Path) -> str:
    """Return the text of a schema; raises INVALID with a hint how to name another file."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise Error(
            Code.INVALID,
            f"{path}: cannot be read ({error.strerror}); name the server's schema with --schema",
        ) from None
    except UnicodeDecodeError as error:
        raise Error(
            Code.INVALID, f"{path}: is not UTF-8 text (at byte {error.start}); save it as UTF-8"
        ) from None


def need_pyarrow() -> None:
    """Raise an Error that names the package to install when pyarrow is missing."""
    if find_spec("pyarrow") is None:
        raise Error(
            Code.UNSUPPORTED,
            "snapshots need pyarrow, which is not installed: pip install 'rowcast[parquet]'",
        )
