"""No file has the marks that git leaves where two changes met: in prose nothing else notices."""

import re
from collections.abc import Iterator

import pytest

from house import expect_none, relative, text_files

MARK = re.compile(r"(<{7}|>{7}|\|{7})( |$)|={7}$")


def unfinished_merges(path: str, text: str) -> Iterator[str]:
    """Name each line that is a mark of a conflict."""
    for number, line in enumerate(text.splitlines(), 1):
        if MARK.match(line):
            yield f"{path}:{number}: {line[:7]}; keep the meaning of both sides, remove the mark"


def test_no_file_has_marks_of_a_merge():
    """Documents are looked through as code is."""
    expect_none(
        [
            complaint
            for path in text_files()
            for complaint in unfinished_merges(
                relative(path), path.read_text(encoding="utf-8", errors="replace")
            )
        ]
    )


@pytest.mark.parametrize("mark", ["<" * 7 + " HEAD", "=" * 7, ">" * 7 + " 1a2b3c4 (count)"])
def test_a_mark_is_noticed(mark):
    """Each of the three marks is found, at its line."""
    assert ["a.md:2"] == [told[:6] for told in unfinished_merges("a.md", f"a\n{mark}\nb")]


def test_headings_and_shifts_pass():
    """A heading of another length, and code that shifts bits, are no marks."""
    assert [] == list(unfinished_merges("a.md", "========\n    1 <<<<<<< 2\n=======x"))
