"""Topics, filters, and the skip-scan over sorted topics (MQTT 5, section 4.7)."""

from bisect import bisect_left
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rowcast.core.errors import Code, Error
from rowcast.core.limits import TOPIC_BYTES_MAX, TOPIC_LEVELS_MAX
from rowcast.core.topics import (
    TopicFilter,
    check_filter,
    check_topic,
    fits_level,
    is_pattern,
    is_within,
    levels_below,
)

LEVELS = st.sampled_from(
    ["", "a", "b", "ab", "a.", "a0", "$", "$s", " ", ".", "0", "é", "\U0001f600"]
)
TOPICS = st.lists(LEVELS, min_size=1, max_size=4).map("/".join).filter(bool)
FILTERS = (
    st.tuples(st.lists(LEVELS | st.just("+"), max_size=4), st.booleans())
    .map(lambda both: "/".join([*both[0], *(["#"] if both[1] else [])]))
    .filter(bool)
)


def selects(text, topic):
    """Say section 4.7 again, recursively."""

    def below(levels, parts):
        if not levels:
            return not parts
        if levels[0] == "#":
            return True
        return bool(parts) and levels[0] in {"+", parts[0]} and below(levels[1:], parts[1:])

    if topic.startswith("$") and text[0] in "+#":
        return False
    return below(text.split("/"), topic.split("/"))


def skip_scan(topic_filter, topics):
    """Give the selected ones of sorted topics, and how many were looked at."""
    found, looked, topic = [], 0, ""
    while (target := topic_filter.seek(topic)) is not None:
        index = bisect_left(topics, target)
        if index == len(topics):
            break
        assert topics[index] > topic
        topic = topics[index]
        looked += 1
        if topic_filter.matches(topic):
            found.append(topic)
    return found, looked


@given(FILTERS, TOPICS)
@example("a/#", "a")
@example("a/+", "a")
@example("a/+", "a/")
@example("+/+", "/a")
@example("/+", "/a")
@example("+", "/a")
def test_a_filter_matches_as_section_4_7_says(text, topic):
    """MQTT-4.7.1-2, MQTT-4.7.1-3, MQTT-4.7.3-4: by brute force."""
    assert selects(text, topic) == TopicFilter(text).matches(topic)


@given(FILTERS, st.sets(TOPICS, max_size=60))
@example("a/#", {"a", "a.", "ab", "a/b", "b"})
@example("a/+/c", {"a/b/c", "a/b", "a/b/c/d", "a/b.", "a/b0/c", "a", "a/", "a//c"})
@example("+/a/#", {"x/a", "x/a/b", "x/a.", "x/a0", "x", "y/a", "$x/a"})
@example("+/b", {"a/c", "a0/b", "a.b/b", "b/b"})
def test_a_skip_scan_finds_exactly_what_matches(text, topics):
    """Whatever the topics, seek never jumps over one that the filter selects, and always moves."""
    ordered = sorted(topics)
    expected = [topic for topic in ordered if selects(text, topic)]
    assert (expected, True) == (
        skip_scan(TopicFilter(text), ordered)[0],
        ordered == sorted(topics, key=str.encode),
    )


def test_a_skip_scan_looks_at_few():
    """A wildcard in the middle costs what it returns, not what the table holds."""
    topics = sorted(f"a/{n}/{leaf}" for n in range(100) for leaf in "bcdefghij")
    found, looked = skip_scan(TopicFilter("a/+/e"), topics)
    assert 100 == len(found)
    assert looked <= 2 * len(found) + 1


def test_a_skip_scan_of_an_exact_filter_looks_once():
    assert (["b"], 1) == skip_scan(TopicFilter("b"), ["a", "b", "c"])


@pytest.mark.parametrize(
    ("text", "prefix"),
    [
        ("a/b", "a/b"),
        ("a/+/c", "a/"),
        ("a/#", "a"),
        ("a/b/#", "a/b"),
        ("#", ""),
        ("+/a", ""),
        ("/+", "/"),
    ],
)
def test_the_literal_prefix(text, prefix):
    assert prefix == TopicFilter(text).prefix


@pytest.mark.parametrize("text", ["#", "+", "+/monitor", "#", "+/#"])
def test_a_leading_wildcard_selects_no_dollar_topic(text):
    """MQTT-4.7.2-1."""
    assert not TopicFilter(text).matches("$SYS/monitor")


@pytest.mark.parametrize("text", ["$SYS/#", "$SYS/+", "$SYS/monitor"])
def test_a_dollar_filter_selects_dollar_topics(text):
    """MQTT-4.7.2-1."""
    assert TopicFilter(text).matches("$SYS/monitor")


@pytest.mark.parametrize("text", ["a#", "#/a", "a/#/b", "a/b#", "+a", "a/b+", "a/++"])
def test_misplaced_wildcards(text):
    """MQTT-4.7.1-1, MQTT-4.7.1-2."""
    with pytest.raises(Error) as caught:
        check_filter(text)
    assert caught.value.code is Code.INVALID


@pytest.mark.parametrize("topic", ["a/+", "#", "a+b", "a#"])
def test_a_topic_holds_no_wildcard(topic):
    """MQTT-3.3.2-2."""
    with pytest.raises(Error, match="wildcard"):
        check_topic(topic)


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("", "at least one character"),
        ("a\0b", "NUL"),
        ("a\ud800", "surrogate"),
        ("a" * (TOPIC_BYTES_MAX + 1), "bytes"),
        ("é" * (TOPIC_BYTES_MAX // 2 + 1), "bytes"),
        ("/" * TOPIC_LEVELS_MAX, "levels"),
    ],
)
def test_illegal_topics(topic, reason):
    """MQTT-4.7.3-1, MQTT-4.7.3-2, MQTT-4.7.3-3, MQTT-1.5.4-1."""
    for check in (check_topic, check_filter):
        with pytest.raises(Error, match=reason):
            check(topic)


@pytest.mark.parametrize("topic", ["/", "a b", "é/ü", "a//b", "a" * TOPIC_BYTES_MAX, "$x"])
def test_legal_topics(topic):
    check_topic(topic)
    check_filter(topic)


def test_filters_are_the_same_when_their_texts_are():
    assert TopicFilter("a/+") == TopicFilter("a/+")
    assert TopicFilter("a").exact
    assert not TopicFilter("a/+").exact


NARROW = st.sampled_from(["a", "b", "+", "$s"])
SHORT_FILTERS = (
    st.tuples(st.lists(NARROW, max_size=3), st.booleans())
    .map(lambda both: "/".join([*both[0], *(["#"] if both[1] else [])]))
    .filter(bool)
    .map(TopicFilter)
)
EVERY_TOPIC = [
    "/".join(levels)
    for depth in range(1, 5)
    for levels in product(["a", "b", "c", "$s"], repeat=depth)
]
"""All topics that such filters tell apart: ``c`` stands for what none of them names."""


@given(SHORT_FILTERS, SHORT_FILTERS)
def test_filters_cover_and_overlap_by_the_topics_that_they_select(one, other):
    """C8: what holds of two filters is what holds of the topics that they select."""
    mine = {topic for topic in EVERY_TOPIC if one.matches(topic)}
    others = {topic for topic in EVERY_TOPIC if other.matches(topic)}
    covered = others <= mine and (one.text, other.text) != ("+/#", "#")
    assert (covered, bool(mine & others)) == (one.covers(other), one.overlaps(other))


@pytest.mark.parametrize(
    ("path", "text"), [("Dog", "Dog/#"), ("a/b", "a/b/#"), ("", "#")], ids=["one", "two", "all"]
)
def test_a_filter_of_all_below_a_path(path, text):
    below = TopicFilter.below(path)
    assert (text, True, 0, True) == (
        below.text, below.unbounded, below.free_levels, is_pattern(text),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "path", "suffix", "depths"),
    [
        ("a/#", "a", "", {1, 2, 3, 4}),
        ("a/b/#", "a/b", "", {2, 3, 4}),
        ("/#", "", "", {1, 2, 3, 4}),
        ("#", None, "", {0, 1, 2, 3, 4}),
        ("a", None, "", {1}),
        ("a/+", None, "", {2}),
        ("+/#", None, "", {1, 2, 3, 4}),
        ("a/+/#", None, "", {2, 3, 4}),
        ("a/+/c", None, "c", {3}),
        ("+/b/c/#", None, "b/c", {3, 4}),
        ("+/+/c", None, "", {3}),
    ],
)
def test_the_parts_of_a_filter(text, path, suffix, depths):
    topics = TopicFilter(text)
    assert (path, suffix) == (topics.path, topics.suffix)
    assert depths == {depth for depth in range(5) if topics.has_depth(depth)}


@given(FILTERS, TOPICS)
def test_what_is_selected_has_the_parts_of_its_filter(text, topic):
    topics = TopicFilter(text)
    if not topics.matches(topic):
        return
    levels = topic.split("/")
    assert topics.has_depth(len(levels))
    assert is_within(topic, topics.path or "")
    for position, level in enumerate(levels):
        assert topics.literal(position) in {None, level}


def test_a_level_that_is_literal_and_one_that_is_none():
    topics = TopicFilter("a/+/c/#")
    assert ["a", None, "c", None, None] == [topics.literal(position) for position in range(5)]


@pytest.mark.parametrize(
    ("name", "fits"), [("a", True), ("$a b", True), ("", False), ("a+", False), ("#", False)]
)
def test_a_name_that_fits_a_level(name, fits):
    assert fits is fits_level(name)
    assert not fits_level(f"{name}/a")


@pytest.mark.parametrize(
    ("topic", "path", "within"),
    [
        ("a", "a", True),
        ("a/b", "a", True),
        ("ab", "a", False),
        ("a", "a/b", False),
        ("a", "", True),
    ],
)
def test_a_topic_at_a_path_or_below_it(topic, path, within):
    assert within is is_within(topic, path)


def test_the_levels_of_a_path_and_all_below_it():
    assert ("a", "b", "#") == levels_below("a/b") == TopicFilter.below("a/b").levels
    assert ("#",) == levels_below("") == TopicFilter.below("").levels


def test_a_skip_scan_skips_all_dollar_topics_at_once():
    topics = sorted([*(f"$SYS/{number}" for number in range(100)), "a", "b"])
    assert (["a", "b"], 3) == skip_scan(TopicFilter("+"), topics)
