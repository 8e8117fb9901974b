"""The modules that scripts/compile and the wheel compile: a list, all of it or nothing of it."""

import tomllib

from house import ROOT
from rowcast.core.compiled import CODE, code_of

LISTED = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["rowcast"]["compiled"]


def test_each_listed_module_is_there_once():
    missing = [name for name in LISTED if not (ROOT / "app" / name).is_file()]
    assert ([], sorted(set(LISTED))) == (missing, LISTED)


def test_packages_are_not_compiled():
    """They hold no code, and their files are how the sources are found."""
    assert [] == [name for name in LISTED if name.endswith("__init__.py")]


def test_what_is_told_is_true_of_all_of_them():
    """A server whose modules are half compiled would say of the other half what is not so."""
    modules = [name.removesuffix(".py").replace("/", ".") for name in LISTED]
    assert {CODE} == {code_of(module) for module in modules}
