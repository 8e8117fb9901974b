"""The journaled store is tested with the store's interface: its tests are beside this room's."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent.parent / "store"))
pytest.register_assert_rewrite(
    "conformance", "conformance_queries", "conformance_states", "conformance_topic_tables"
)


@pytest.fixture(scope="session")
def empty_journal(tmp_path_factory):
    """A data directory in which the store made its tables, which takes longer than most tests."""
    from journal_place import APPLYING, JournalPlace

    folder = tmp_path_factory.mktemp("journal")
    place = JournalPlace(folder, APPLYING["inline"])
    place.start()
    place.close()
    return folder
