"""kill -9 while events go from the log to files (M2); `scripts/kill archive`."""

import uuid

import pytest
from kill_archive import Ledger, run

from object_store import BUCKET, object_store
from serving import PATIENCE_SECONDS


@pytest.mark.slow
@pytest.mark.timeout(10 * PATIENCE_SECONDS)
def test_m2_three_kills_while_archiving_lose_nothing_and_double_nothing(tmp_path):
    run(tmp_path, rounds=3, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(10 * PATIENCE_SECONDS)
def test_m2_kills_while_files_are_sent_to_a_store_lose_nothing(tmp_path, monkeypatch):
    with object_store() as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        place = {"log.archive_location": f"s3://{BUCKET}/{uuid.uuid4().hex}"}
        run(tmp_path, rounds=3, seed=2, more=place)


@pytest.mark.parametrize(
    "found",
    [
        [],
        [(7, 0, "a"), (7, 0, "a")],
        [(8, 0, "a")],
        [(7, 0, "b")],
        [(7, 0, "a"), (9, 0, "a")],
    ],
)
def test_m2_a_fault_is_noticed(found):
    """Lost, twice, under another number, at another topic, written again."""
    ledger = Ledger()
    ledger.acknowledge(ledger.send("a"), "0badcafe:7")
    ledger.check([(7, 0, "a")])
    with pytest.raises(AssertionError):
        ledger.check(found)
