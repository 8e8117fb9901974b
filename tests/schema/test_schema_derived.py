"""``@derived``: what it declares, and what is wrong with one (W4)."""

import pytest

from rowcast.core.derivations import DerivedRule
from rowcast.core.errors import Error
from rowcast.schema import parse_schema

SOURCE = "type Sensor @table @export { id: ID @primaryKey temp: Float }\n"
GOOD = 'job: "jobs/hourly.py", from: ["Sensor"], every: "5m"'


def test_w4_a_derived_table_has_its_rule():
    """W4: the job, the tables that it reads, and how often."""
    text = f"{SOURCE}type Hourly @table @export @derived({GOOD}) {{ id: ID @primaryKey n: Int }}"
    (_, hourly) = parse_schema(text).tables
    assert hourly.derived == DerivedRule("jobs/hourly.py", ("Sensor",), 300)


@pytest.mark.parametrize(
    ("old", "new", "at", "said", "hint"),
    [
        ("jobs/hourly.py", "hourly.py", '"hourly', "job is the file of a program below jobs/", ""),
        ("jobs/hourly", "jobs/../x", '"jobs/..', "job is the file of a program below jobs/", ""),
        ("jobs/hourly", "/jobs/hourly", '"/jobs', "job is the file of a program below jobs/", ""),
        ("hourly.py", "hourly.sh", '"jobs', "job is the file of a program below jobs/", ""),
        ("hourly.py", "a//b.py", '"jobs', "job is the file of a program below jobs/", ""),
        ("hourly.py", "a@b.py", '"jobs', "job is the file of a program below jobs/", ""),
        ("hourly", "h" * 90, '"jobs', "job is the file of a program below jobs/", ""),
        ('"Sensor"', '"Sensr"', '"Sensr', "from names tables of this schema", "Sensor"),
        ('["Sensor"]', "[]", "[]", "from is a list of 1 to 16 tables", ""),
        ('["Sensor"]', "[1]", "[1]", "from is a list of 1 to 16 tables", ""),
        ('from: ["Sensor"], ', "", "@derived", "from is a list of 1 to 16 tables", ""),
        ('"5m"', '"0.5s"', '"0.5s', "every is a time from 1 s to", ""),
        ('"5m"', '"90d"', '"90d', "every is a time from 1 s to 31 days", ""),
        (', every: "5m"', "", "@derived", "every is a time from 1 s to", ""),
        ('"Sensor"', '"Hourly"', "@derived", "Hourly is derived from itself", ""),
    ],
)
def test_w4_what_is_wrong_is_said_with_its_place(old, new, at, said, hint):
    """W4: no path outside, no table that is not declared, no cycle."""
    line = (
        f"type Hourly @table @export @derived({GOOD.replace(old, new, 1)}) {{ id: ID @primaryKey }}"
    )
    with pytest.raises(Error) as caught:
        parse_schema(SOURCE + line)
    problems = caught.value.detail["problems"]
    (found,) = [item for item in problems if item["message"].startswith(said)]
    assert (2, line.index(at) + 1, hint) == (found["line"], found["column"], found["suggestion"])


@pytest.mark.parametrize(
    ("words", "body", "said"),
    [
        ("@table", "id: ID @primaryKey", "@derived needs @export"),
        ("@table @export", "n: Int", "@derived needs an attribute with @primaryKey"),
        ('@table(expiration: "1h") @export', "id: ID @primaryKey", "@derived has no expiration"),
        ("@table @export", "id: ID @primaryKey e: Date @expiresAt", "@derived has no expiration"),
        ('@table @export @deadline(after: "1h")', "id: ID @primaryKey", "@derived has no @deadl"),
        ("@table(invalid: drop) @export", "id: ID @primaryKey", "@derived has no other treatment"),
        (
            '@table @export @rollup(of: "Sensor", time: "at", every: "1h", values: {temp: [avg]})',
            "id: ID @primaryKey",
            "@derived and @rollup exclude each other",
        ),
    ],
)
def test_w4_what_would_change_rows_beside_the_job_is_refused(words, body, said):
    """W4: only the job decides what is in the table."""
    with pytest.raises(Error) as caught:
        parse_schema(f"{SOURCE}type Hourly {words} @derived({GOOD}) {{ {body} }}")
    assert [item for item in caught.value.detail["problems"] if item["message"].startswith(said)]


def test_w4_a_longer_cycle_is_refused():
    """W4: derived tables may be sources of others, but not in a circle."""
    derived = 'type {} @table @export @derived(job: "jobs/a.py", from: [{}], every: "1m") {}'
    body = "{ id: ID @primaryKey }"
    chain = SOURCE + derived.format("A", "Sensor", body) + derived.format("B", "A", body)
    assert 3 == len(parse_schema(chain).tables)
    circle = SOURCE + derived.format("A", "Sensor, B", body) + derived.format("B", "A", body)
    with pytest.raises(Error) as caught:
        parse_schema(circle)
    told = [item["message"] for item in caught.value.detail["problems"]]
    assert ["A is derived from itself", "B is derived from itself"] == told
