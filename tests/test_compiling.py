"""The modules that scripts/compile and the wheel compile: a list, all of it or nothing of it."""

import os
import runpy
import tomllib

import pytest

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


# -- what is compiled again ------------------------------------------------------------------------

MADE = 1_000
"""When the object file was written, in seconds."""


@pytest.fixture
def is_current():
    """The function of that name of scripts/compiled.py."""
    return runpy.run_path(str(ROOT / "scripts" / "compiled.py"))["is_current"]


@pytest.fixture
def made(tmp_path):
    """An object file of a C file and two headers, as old as it is, with the compiler's list."""
    needs = [tmp_path / name for name in ("a.c", "a.h", "b.h")]
    for file in (tmp_path / "a.o", *needs):
        file.touch()
        os.utime(file, (MADE, MADE))
    (tmp_path / "a.d").write_text(f"a.o: {needs[0]} \\\n {needs[1]} \\\n {needs[2]}\n")
    return tmp_path / "a.o"


def test_an_object_is_used_again_where_nothing_is_newer(is_current, made):
    assert is_current(str(made))


@pytest.mark.parametrize("name", ["a.c", "a.h", "b.h"])
def test_an_object_is_made_again_when_one_of_its_files_is_newer(is_current, made, name):
    os.utime(made.with_name(name), (MADE, MADE + 1))
    assert not is_current(str(made))


@pytest.mark.parametrize("name", ["a.o", "a.d", "a.c", "b.h"])
def test_an_object_is_made_again_when_a_file_is_gone(is_current, made, name):
    made.with_name(name).unlink()
    assert not is_current(str(made))


@pytest.mark.parametrize("listed", ["", "a.o:\n", "a.o: a\\ file.c\n"])
def test_an_object_is_made_again_when_the_list_tells_no_file(is_current, made, listed):
    made.with_suffix(".d").write_text(listed)
    assert not is_current(str(made))


# -- how much the C compiler optimises -------------------------------------------------------------


@pytest.fixture
def optimization():
    """The function of that name of scripts/compiled.py."""
    return runpy.run_path(str(ROOT / "scripts" / "compiled.py"))["optimization"]


@pytest.mark.parametrize(
    ("asked", "before", "expected"),
    [
        ("", None, "2"), ("2", None, "2"), ("other", None, "2"), ("", "1", "2"),
        ("1", None, "1"), ("1", "1", "1"), ("1", "2", "2"), ("0", None, "0"), ("0", "1", "1"),
    ],
)  # fmt: skip
def test_only_who_asks_gets_less_and_never_less_than_before(
    optimization, monkeypatch, tmp_path, asked, before, expected
):
    """A wheel, an image and who asks for nothing have the modules as they are measured."""
    monkeypatch.setenv("OPTIMIZE", asked)
    (tmp_path / "build" / "work").mkdir(parents=True)
    if before is not None:
        (tmp_path / "build" / "work" / "made-by").write_text(f"{before} 3.11")
    assert expected == optimization(tmp_path)
