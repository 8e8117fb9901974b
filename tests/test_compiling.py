"""The modules that scripts/compile and the wheel compile: a list, all of it or nothing of it."""

import tomllib

from house import ROOT, sources
from rowcast.core.compiled import CODE, code_of

LEFT_OUT = 17
"""Tests that replace code inside of a compiled module, which can be seen interpreted only: each is
one that tells nothing of what is delivered, so there may only be fewer."""

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


def test_no_more_tests_are_left_out_of_the_compiled_run():
    found = sum(source.text.count("@pytest.mark.interpreted\n") for source in sources("tests"))
    assert found <= LEFT_OUT
