"""What is written to the log: structured, and the same sentence only so often (O15)."""

import io
import json
import logging

import pytest

from rowcast.core.overload_limits import LOG_SAME_LINES, LOG_SAME_SECONDS, LOG_SAME_SENTENCES_MAX
from rowcast.program.logs import JsonFormatter, LogThrottle, Output


def line(message, *arguments, at=0.0, level=logging.WARNING):
    record = logging.LogRecord("rowcast.x", level, "f", 1, message, arguments, None)
    record.created = at
    return record


def said(throttle, *records):
    return [out.getMessage() for record in records for out in throttle.judge(record)]


def test_the_same_sentence_is_counted_whoever_it_is_about():
    throttle = LogThrottle()
    told = said(throttle, *(line("%s is banned", name, at=name / 100) for name in range(1_000)))
    assert [f"{name} is banned" for name in range(LOG_SAME_LINES)] == told
    told = said(throttle, line("%s is banned", "eve", at=LOG_SAME_SECONDS + 1))
    left_out = 1_000 - LOG_SAME_LINES
    assert [
        f"and {left_out} more in {LOG_SAME_SECONDS} s like: 0 is banned",
        "eve is banned",
    ] == told


def test_other_sentences_are_not_held_up():
    throttle = LogThrottle()
    flood = [line("flood", at=1) for _ in range(100)]
    assert ["other", "flood"] == said(
        throttle, *flood, line("other", at=2), line("flood", at=3, level=40)
    )[-2:]


def test_what_is_left_out_is_told_though_nothing_like_it_comes_again():
    throttle = LogThrottle()
    said(throttle, *(line("flood", at=1) for _ in range(100)))
    told = said(throttle, line("quiet", at=LOG_SAME_SECONDS + 2))
    assert (2, True) == (len(told), told[0].startswith(f"and {100 - LOG_SAME_LINES} more"))


def test_sentences_without_end_are_bounded():
    throttle = LogThrottle()
    many = 3 * LOG_SAME_SENTENCES_MAX
    assert many == len(said(throttle, *(line(f"sentence {n}", at=1) for n in range(many))))
    assert len(throttle._said) <= LOG_SAME_SENTENCES_MAX


@pytest.mark.parametrize("count", [1, 500])
def test_json_lines_have_the_count(count):
    output = Output()
    output.stream = io.StringIO()
    output.setFormatter(JsonFormatter())
    for number in range(count):
        output.handle(line("from %s", number, at=1))
    output.close()
    lines = [json.loads(text) for text in output.stream.getvalue().splitlines()]
    assert count == sum(item.get("left_out", 1) for item in lines)
    assert {"time", "level", "logger", "message"} <= lines[0].keys()
