"""Fixtures of the store's tests: a place for a store, the store in it, a writer of events."""

import pytest
from store_cases import Writer
from store_place import Place

pytest.register_assert_rewrite(
    "conformance", "conformance_queries", "conformance_states", "conformance_topic_tables"
)


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path)
    yield place
    place.close()


@pytest.fixture
def store(place):
    return place.start()


@pytest.fixture
def writer():
    return Writer()
