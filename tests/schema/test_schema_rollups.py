"""``@rollup``: what it declares, and what is wrong with one (V4)."""

import pytest

from rowcast.core.errors import Error
from rowcast.schema import parse_schema

SOURCE = "type Sensor @table @export { at: Date site: String n: Int h: Int @hidden }\n"
GOOD = 'of: Sensor, by: [site], time: at, every: "1h", values: {n: [avg]}'


@pytest.mark.parametrize(
    ("old", "new", "at", "said", "hint"),
    [
        ("of: Sensor", "of: Sensr", "Sensr", "@rollup needs an exported type", "Sensor"),
        ("[site]", "[sit]", "sit]", 'Sensor has no attribute "sit" of a type that fits', "site"),
        ("[site]", "[at]", "at]", 'Sensor has no attribute "at" of a type that fits', ""),
        ("[site]", "[]", "[]", "by is a list of 1 to 8 different attributes", ""),
        ("{n:", "{h:", "h: [", 'Sensor has no attribute "h" of a type that fits', ""),
        ("at,", "n,", "n, every", 'Sensor has no attribute "n" of a type that fits: Date', ""),
        ("time: at, ", "", "@rollup", "time is the attribute, a Date, that says when", ""),
        ("at,", '"",', '"", every', "time is the attribute, a Date, that says when", ""),
        ('"1h"', "0", "0,", "every is a time from 1 s to 366 days", ""),
        ("]}", ']}, late: "90d"', '"90d"', "late is at most 31 days", ""),
        ("avg", "mean", "mean", 'there is no function "mean": avg, min', ""),
        ("[avg]", "[]", "n: [", "values of n needs functions: avg", ""),
        (", values: {n: [avg]}", "", "@rollup", "values says what of which attribute", ""),
        ("", "", "@rollup", "two attributes of Hourly would be called", ""),
        ("", "", "@rollup", '"n_avg" of Hourly is Float, without !', ""),
        ("", "", "@rollup", "the key of Hourly must be an ID or a String", ""),
        ("", "", "@rollup", "@rollup needs @export", ""),
    ],
)
def test_what_is_wrong_is_said_with_its_place(old, new, at, said, hint):
    source, export, body = SOURCE, " @export", "{ id: ID @primaryKey }"
    if "two attributes" in said:
        source = SOURCE.replace("site: String", "site: String n_avg: Int")
        old, new = "[site]", "[n_avg]"
    elif "without !" in said:
        body = "{ n_avg: String }"
    elif "the key" in said:
        body = "{ id: Long @primaryKey }"
    elif "@export" in said:
        export = ""
    line = f"type Hourly @table{export} @rollup({GOOD.replace(old, new, 1)}) {body}"
    with pytest.raises(Error) as caught:
        parse_schema(source + line)
    problems = caught.value.detail["problems"]
    (found,) = [item for item in problems if item["message"].startswith(said)]
    assert (2, line.index(at) + 1, hint) == (found["line"], found["column"], found["suggestion"])


def test_corrections_do_not_reach_further_than_the_history():
    source = SOURCE.replace("@table", '@table(history: "1h")')
    with pytest.raises(Error, match="Sensor has a shorter history"):
        parse_schema(f'{source} type Hourly @table @export @rollup({GOOD}, late: "2h")')


def test_v4_roll_ups_have_the_attributes_of_their_rows():
    sensor, hourly = parse_schema(
        "type Sensor @table @export { id: ID @primaryKey at: Date site: String! n: Int t: Float }"
        'type Hourly @table @export @rollup(of: "Sensor", by: ["site"], time: "at", every: "1h", '
        'values: {t: ["avg", "count"], n: [sum, max]}, late: "1d") { site: String @indexed }'
    ).tables
    assert sensor.rollup is None
    assert [
        ("site", "String"), ("id", "ID"), ("at", "Date"), ("t_avg", "Float"), ("t_count", "Long"),
        ("n_sum", "Long"), ("n_max", "Int"),
    ] == [(item.name, item.type.value) for item in hourly.attributes]  # fmt: skip
    rule = hourly.rollup
    assert ("Sensor", ("site",), "at", 3_600, 86_400) == (
        rule.of, rule.by, rule.time, rule.every_seconds, rule.late_seconds
    )  # fmt: skip


def test_v4_decimals_stay_decimals_and_start_anew_where_a_type_was_changed():
    text = (
        "type Sensor @table @export { at: Date cost: Decimal @decimal(precision: 9, scale: 2) } "
        'type Hourly @table @export @rollup(of: Sensor, time: at, every: "1h", '
        "values: {cost: [avg, min, sum, count]}) { cost_sum: Decimal }"
    )
    hourly = parse_schema(text).tables[1]
    assert {"cost_avg": "Decimal", "cost_min": "Decimal", "cost_sum": "Decimal"} == {
        item.name: item.type.value for item in hourly.attributes if item.type.value == "Decimal"
    }
    floats = text.replace("Decimal @decimal(precision: 9, scale: 2)", "Float")
    floats = floats.replace("cost_sum: Decimal", "")
    assert hourly.rollup.digest != parse_schema(floats).tables[1].rollup.digest
    limited = text.replace("cost_sum: Decimal", "cost_sum: Decimal @decimal(precision: 9)")
    with pytest.raises(Error, match='"cost_sum" of Hourly has no @decimal'):
        parse_schema(limited)


def test_roll_ups_of_one_another_lead_to_a_table():
    text = (
        'type {} @table @export @rollup(of: {}, time: at, every: "1h", values: {{n_max: max}})'
        " {{ at: Date n_max: Int n_max_max: Int }}"
    )
    with pytest.raises(Error, match="A rolls up what is made of it"):
        parse_schema(text.format("A", "B") + text.format("B", "A"))


def test_periods_of_weeks_begin_on_mondays():
    week = GOOD.replace("1h", "7d")
    rule = parse_schema(f"{SOURCE} type Weekly @table @export @rollup({week})").tables[1].rollup
    monday, second = 1_704_067_200, 1_000_000  # 2024-01-01
    assert monday * second == rule.period(monday * second)
    assert (monday - 7 * 86_400) * second == rule.period(monday * second - 1)
