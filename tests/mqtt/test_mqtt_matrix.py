"""The page with the seed's matrix of features names behaviours that are proven."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
MATRIX = DOCS / "internals" / "mqtt-matrix.md"


def test_each_row_of_the_matrix_is_proven():
    proven = set(
        re.findall(
            r"^\| ([A-Z]+\d+) \|",
            (DOCS / "behaviours.md").read_text().partition("## Not proven")[0],
            re.MULTILINE,
        )
    )
    rows = [line for line in MATRIX.read_text().splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 24
    for row in rows:
        named = re.findall(r"\b[A-Z]\d+\b", row.rpartition("|")[0].rpartition("|")[2])
        assert named, row
        assert set(named) <= proven, row
