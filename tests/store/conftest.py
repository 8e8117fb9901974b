"""Fixtures of the store's tests: a place for a store, the store in it, a writer of events."""

import shutil

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


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory):
    """A database file in which the store made its tables, which takes longer than most tests."""
    place = Place(tmp_path_factory.mktemp("store"))
    place.start()
    place.close()
    return place.path


@pytest.fixture
def store(place, empty_database):
    shutil.copyfile(empty_database, place.path)
    return place.start()


@pytest.fixture
def writer():
    return Writer()
