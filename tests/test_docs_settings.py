"""docs/settings.md has each setting with its default, and describes it as the code does."""

import re

from house import ROOT
from rowcast.program.config import config_keys

CHAPTER = ROOT / "docs" / "settings.md"
ROW = re.compile(r"^\| `([\w.]+)` \| (.+?) \| (.+) \|$", re.MULTILINE)


def shown(default: object) -> str:
    """Return a default as the chapter shows it."""
    if default in (None, "", (), {}):
        return "none"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def test_defaults_and_descriptions_are_those_of_the_code():
    expected = {name: (shown(key.default), key.description) for name, key in config_keys().items()}
    rows = ROW.findall(CHAPTER.read_text(encoding="utf-8"))
    assert expected == {name: (default, meaning) for name, default, meaning in rows}
