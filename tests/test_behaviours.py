"""The list of behaviours: what is compared, and that each kind of mistake is noticed."""

import pytest

from behaviours import ROOT, Page, ids_in, mistakes, proofs

PAGE = """# Behaviours

A line each.

## A group

| id | behaviour |
|---|---|
| A1 | one |
| A2 | two |

## Not proven by a test

| id | behaviour |
|---|---|
| A3 | three |
"""


@pytest.fixture
def project(tmp_path):
    """A project in which all agrees."""
    for name, text in {
        "docs/behaviours.md": PAGE,
        "docs/other.md": "It does (A1) and not `B9`.",
        "app/code.py": '"""Code (A2)."""\n\nX = 1  # A3\n',
        "tests/test_one.py": '"""Tests (A1)."""\n\n\ndef test_it():\n    """A2: it does."""\n',
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_all_agrees(project):
    assert [] == list(mistakes(project))


def test_tests_are_found_by_name_docstring_and_module(project):
    (project / "tests" / "test_two.py").write_text("def test_a2_again():\n    pass  # A1\n")
    assert {
        "A1": {"tests/test_one.py", "tests/test_two.py"},
        "A2": {"tests/test_one.py::test_it", "tests/test_two.py::test_a2_again"},
    } == proofs(project)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("docs/behaviours.md", PAGE.replace("| A2 | two |\n", ""), "A2 is in app/code.py"),
        ("docs/behaviours.md", PAGE.replace("A1 |", "A9 |"), "A9 has no test"),
        ("docs/behaviours.md", PAGE.replace("A3 |", "A2 |"), "an id twice"),
        ("docs/behaviours.md", PAGE.replace("| one |", "|one|"), "not in order"),
        ("docs/behaviours.md", PAGE.replace("A1 |", "A0 |").replace("A3 |", "A1 |"), "has a test"),
        ("docs/other.md", "It does (B2).", "B2 is in docs/other.md"),
        ("app/code.py", '"""Code (B3)."""\n', "B3 is in app/code.py"),
        ("app/code.py", "X = 1  # B4: why\n", "B4 is in app/code.py"),
        ("tests/test_one.py", 'def test_it():\n    """A1."""\n', "A2 has no test"),
    ],
)
def test_a_mistake_is_noticed(project, name, text, said):
    (project / name).write_text(text)
    assert any(said in mistake for mistake in mistakes(project))


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("(A1, B22)", ["A1", "B22"]),
        ("E17 to E20", ["E17", "E18", "E19", "E20"]),
        ("G1-G3", ["G1", "G2", "G3"]),
        ("F30.2: it", ["F30"]),
        ("MQTT-3.1.2-8, X509, UTF-8, 0x8B, h11, Int64, $A1, #D5", []),
    ],
)
def test_ids_are_read(text, ids):
    assert ids == list(ids_in(text))


def test_the_page_is_read_as_it_is_written():
    text = (ROOT / "docs" / "behaviours.md").read_text()
    assert Page.read(text).text() == text


@pytest.mark.slow
def test_every_behaviour_of_the_project_has_a_test_that_can_be_named():
    assert "tests/doors/mqtt/test_broker_delayed.py" in proofs()["D52"]
