"""The journaled store is tested with the store's interface: its tests are beside this room's."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent.parent / "store"))
pytest.register_assert_rewrite(
    "conformance", "conformance_queries", "conformance_states", "conformance_topic_tables"
)
