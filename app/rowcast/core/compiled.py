"""Whether the hot modules run as machine code or are interpreted; they are compiled together.

The source is the same. ``scripts/compiled.py`` compiles what pyproject.toml lists, with mypyc.
"""

from importlib.machinery import ExtensionFileLoader
from importlib.util import find_spec
from typing import Final, Literal

from rowcast.core import events

Code = Literal["compiled", "interpreted"]


def code_of(module: str) -> Code:
    """Return how a module runs."""
    spec = find_spec(module)
    extension = spec is not None and isinstance(spec.loader, ExtensionFileLoader)
    return "compiled" if extension else "interpreted"


CODE: Final = code_of(events.__name__)
"""How the hot modules run in this process."""
