"""Files of the archive: every row comes back as it was, and a file is whole or not there (M2)."""

import json
import random
import stat
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rowcast_lake.archive import log_files as module
from rowcast_lake.archive.log_files import ParquetFiles

ODD = [
    (1, 7, "1", "put", 5, 1, 1, "ann", "application/json", b'{"a": 1}', None, None),
    (2, 7, "1", "delete", 6, 0, 1, "", None, b"", None, None),
    (5, 7, "a/b c/\u00e4\U0001f600", "message", 1 << 62, 2, 0, "x" * 300, "", b"\x00\xff\xfe", 1.5,
     '{"user_property":[["k","v"]]}'),
    (6, 7, "", "patch", 7, 1, 1, "ben", "text/plain", b"plain", 1e12, "{}"),
    ((1 << 62) + 1, 7, "1", "put", 8, 1, 1, "\u0000", None, b"x" * 100_000, 0.1, None),
]  # fmt: skip
"""Empty payloads and texts, deletes, bytes that are no text, the largest numbers, metadata."""


def read(files, path, topic=None):
    with files.open(path) as file:
        return [row for index in range(len(file.groups())) for row in file.rows(index, topic)]


def test_m2_odd_rows_come_back_byte_for_byte(tmp_path):
    files, path = ParquetFiles(), tmp_path / "0-9.parquet"
    files.write(path, ODD, {"epoch": "0badcafe"})
    assert ODD == read(files, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [path] == list(tmp_path.iterdir())
    assert {"epoch": "0badcafe"} == json.loads(pq.read_metadata(path).metadata[b"rowcast"])


def test_m2_text_that_sqlite_keeps_as_text_comes_back_as_its_bytes(tmp_path):
    path = tmp_path / "0-9.parquet"
    row = list(ODD[0])
    row[9] = "\u00e4"
    ParquetFiles().write(path, [tuple(row)], {})
    assert "\u00e4".encode() == read(ParquetFiles(), path)[0][9]


@pytest.mark.parametrize("seed", range(5))
def test_m2_groups_topics_and_merges_lose_no_row(tmp_path, seed):
    """Groups end by number and by bytes; one topic is found in each; merged files are their sum."""
    chance = random.Random(seed)
    files = ParquetFiles(group_events=chance.choice([1, 3, 10]), group_bytes=200)
    rows, paths = [], []
    for number in range(4):
        base = number * 100
        some = [
            (base + i, 3, chance.choice("abc"), "put", chance.randrange(1000), 0, 0, "", None,
             bytes(chance.randrange(90)), None, None)
            for i in range(chance.randrange(1, 40))
        ]  # fmt: skip
        paths.append(tmp_path / f"{number}")
        files.write(paths[-1], some, {})
        rows += some
    merged = tmp_path / "merged"
    files.merge(paths, merged, {})
    assert rows == read(files, merged)
    for topic in "abcd":
        assert [row for row in rows if row[2] == topic] == read(files, merged, topic)
    with files.open(merged) as file:
        groups = file.groups()
        found = [file.rows(index) for index in range(len(groups))]
    assert [(x[0][0], x[-1][0], max(y[4] for y in x)) for x in found] == [*map(tuple, groups)]
    assert all(len(x) == 1 or sum(len(y[9]) for y in x[:-1]) < 200 for x in found)


def test_m2_a_file_that_could_not_be_written_is_not_there(tmp_path):
    def rows():
        yield ODD[0]
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        ParquetFiles(group_events=1).write(tmp_path / "0-9.parquet", rows(), {})
    assert not list(tmp_path.iterdir())


def test_m2_a_full_disk_is_an_error_of_the_disk(tmp_path, monkeypatch):
    """full(4): every write to it fails as one to a full disk does."""

    def open_new(path):
        path.touch()
        return Path("/dev/full").open("wb")

    monkeypatch.setattr(module, "open_new", open_new)
    with pytest.raises(OSError, match="No space left"):
        ParquetFiles().write(tmp_path / "0-9.parquet", ODD, {})
    assert not list(tmp_path.iterdir())


def test_m2_a_damaged_file_is_an_error_of_the_disk(tmp_path):
    path = tmp_path / "0-9.parquet"
    path.write_bytes(b"PAR1 is not all")
    with pytest.raises(OSError, match="damaged"):
        ParquetFiles().open(path)


@pytest.mark.parametrize("seed", range(10))
def test_m2_a_bit_that_a_disk_has_changed_is_an_error_or_changes_nothing(tmp_path, seed):
    """Anywhere in the file: no row is returned as another one, and the process goes on."""
    chance = random.Random(seed)
    files, path = ParquetFiles(group_events=20), tmp_path / "0-60.parquet"
    kinds = ("put", "delete", "message")
    rows = [
        (i, 7, f"t{i % 5}", kinds[i % 3], i, 1, 1, "ann", None, chance.randbytes(20), i / 3, "{}")
        for i in range(1, 61)
    ]
    files.write(path, rows, {})
    whole = path.read_bytes()
    refused = 0
    for _ in range(50):
        damaged, place = bytearray(whole), chance.randrange(len(whole))
        damaged[place] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        try:
            assert rows == read(files, path)
        except OSError:
            refused += 1
    assert refused > 25


@pytest.mark.parametrize("place", range(8))
def test_m2_a_footer_of_another_checksum_is_not_read(tmp_path, place):
    """The library ends the process on some of these."""
    files, path = ParquetFiles(), tmp_path / "0-9.parquet"
    files.write(path, ODD, {})
    assert len(ODD) == pq.read_table(path).num_rows
    damaged = bytearray(path.read_bytes())
    length = int.from_bytes(damaged[-8:-4], "little")
    damaged[-9 - place * (length // 8)] ^= 4
    path.write_bytes(damaged)
    with pytest.raises(OSError, match="damaged"):
        files.open(path)
