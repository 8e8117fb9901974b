"""Roll-ups of decimals: digit for digit what Python's decimals make of the log (V4)."""

import json
from datetime import datetime
from decimal import Context, Decimal
from functools import reduce
from random import Random

import pytest
from test_rollups import BASE, World, iso, stream

from build import ANN
from rowcast.codecs import JSON
from rowcast.core.events import DELETE, PUT
from rowcast.features.rollups.totals import DecimalTotal, binary, decimal

SCHEMA = """
type Sensor @table @export { id: ID @primaryKey at: Date site: String n: Int temp: Decimal }
type Minutely @table @export @rollup(
  of: "Sensor", by: ["site"], time: "at", every: "1m", late: "2m",
  values: {temp: ["avg", "min", "max", "sum", "count"], n: [sum]}
) { at: Date temp_sum: Decimal temp_count: Long }
type Hours @table @export @rollup(
  of: "Minutely", time: "at", every: "1h", values: {temp_sum: [sum, avg], temp_count: [sum]}
)
"""
WIDE = Context(prec=20_000, Emax=99_999, Emin=-99_999)
MEAN = Context(prec=34)


def exactly(values):
    """Return the functions of some decimals, by the arithmetic of Python's module."""
    if not values:
        return None, None, None, None, 0
    total = reduce(WIDE.add, values)
    least, most = min(values), max(values)
    spelled = [
        str(min((it for it in values if it == bound), key=lambda it: it.as_tuple().exponent))
        for bound in (least, most)
    ]
    whole = total.normalize(WIDE) if len(total.as_tuple().digits) > 34 else total
    there = len(whole.as_tuple().digits) <= 34
    return (
        str(MEAN.divide(total, Decimal(len(values)))), *spelled, str(whole) if there else None,
        len(values),
    )  # fmt: skip


def a_decimal(chance):
    """Return the text of a decimal: money, few digits, and now and then many."""
    kind = chance.random()
    if kind < 0.4:  # equal ones, written in several ways
        return chance.choice(("10050.5", "10050.50", "1.0050500E4", "-10050.5", "-10050.50"))
    if kind < 0.7:
        return f"{chance.randrange(-10_000, 10_000) / 100:.2f}"
    if kind < 0.9:
        return f"{chance.randrange(-99, 99)}E{chance.randrange(-6, 6)}"
    return str(Decimal(chance.randrange(-(10**34), 10**34)).scaleb(-chance.randrange(40), WIDE))


class Money(World):
    """A server whose records have decimals."""

    def __init__(self, chance, **facts):
        super().__init__(SCHEMA, **facts)
        self.chance = chance

    async def write(self, record_id, kind=PUT, **value):
        if value.get("temp") is not None:
            value["temp"] = a_decimal(self.chance)
        return await super().write(record_id, kind, **value)


def in_python(world):
    """Return the readings that count, as the log has them: late ones left out."""
    newest, expires, latest, readings = 0, {}, {}, {}
    for event in world.store.read(0, 1_000_000):
        if not event.topic.startswith("Sensor/"):
            continue
        newest = max(newest, event.version)
        name = event.topic.partition("/")[2]
        if event.kind == DELETE:
            at, over = latest.pop(name, None), 0 < expires.get(name, 0) * 1e6 <= event.version
            if at is not None and not over and is_open(at, newest):
                readings.pop((name, at), None)
            continue
        value = json.loads(event.payload)
        at = micros(value.get("at"))
        latest[name], expires[name] = at, event.expires_at
        if at is not None and is_open(at, newest):
            readings[name, at] = value
    groups = {}
    for (_, at), value in readings.items():
        groups.setdefault((value.get("site"), at // 60_000_000 * 60_000_000), []).append(value)
    return {key: exactly([Decimal(it["temp"]) for it in values if it.get("temp") is not None])
            for key, values in groups.items()}  # fmt: skip


def micros(text):
    return None if text is None else round(datetime.fromisoformat(text).timestamp() * 1e6)


def is_open(at, newest):
    start = at // 60_000_000 * 60_000_000
    return start + 180_000_000 >= newest and at <= newest + 3_600_000_000


async def in_rows(world):
    return {
        (row.get("site"), round(row["at"].timestamp() * 1e6)): tuple(
            str(it) if isinstance(it, Decimal) else it
            for it in (row.get(f"temp_{name}") for name in ("avg", "min", "max", "sum", "count"))
        )
        for row in (await world.rows()).values()
    }


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kill", [False, True])
async def test_v4_decimals_are_added_up_digit_for_digit(seed, kill):
    """V4: under late, corrected and deleted readings, and over kills."""
    chance = Random(seed)
    world = await Money(chance, page_events=7).start()
    await stream(world, chance, kill=kill)
    found = await in_rows(world)
    assert in_python(world) == found
    assert len(found) > 20
    assert any(sums for _, _, _, sums, _ in found.values())


async def test_v4_a_roll_up_of_a_roll_up_and_the_text_of_a_row():
    world = await World(SCHEMA).start()
    for n, temp in enumerate(("1.10", "2.20", "0.03")):
        await world.write(str(n), at=BASE + 1, site="A", temp=temp)
    await world.write("3", at=BASE + 1, site="B", temp="1E+3")
    await world.roll()
    await world.roll()
    (hours,) = (await world.rows("Hours")).values()
    assert ("1003.33", "501.665", 4) == (
        str(hours["temp_sum_sum"]), str(hours["temp_sum_avg"]), hours["temp_count_sum"],
    )  # fmt: skip
    record = await world.server.kernel.read(f"Minutely/A/{iso(BASE)}", ANN)
    told = json.loads(world.server.kernel.transcoder.payload(record, JSON))
    assert ("3.33", "1.11", "0.03", "2.20") == (
        told["temp_sum"], told["temp_avg"], told["temp_min"], told["temp_max"],
    )  # fmt: skip


def total_of(*texts):
    total = DecimalTotal()
    for text in texts:
        total.add(decimal(Decimal(text)), 1)
    return total


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("1.10", "2.20"), "3.30"),
        (("1E+3", "1E+3"), "2E+3"),
        (("-1.5", "1.50"), "0.00"),
        (("9" * 34, "1"), "1.000000000000000000000000000000000E+34"),
        (("9" * 34, "0.1"), "None"),
        (("9" * 34 + "E+6110", "1E+6144"), "None"),
        (("1E-6144", "1E+6144"), "None"),
        (("-0.0", "-0.0"), "0.0"),
    ],
)
def test_a_sum_is_exact_or_none(texts, expected):
    assert expected == str(total_of(*texts).sum)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("1", "2"), "1.5"),
        (("1", "1", "2"), "1.333333333333333333333333333333333"),
        (("0", "1E-6144"), "0E-6144"),  # half of the least one, to even
        (("1E-6144", "2E-6144"), "2E-6144"),
        (("1E+6144", "-1E-6144"), "5.000000000000000000000000000000000E+6143"),
        (("9" * 34 + "E+6144",) * 2, "9.999999999999999999999999999999999E+6177"),
    ],
)
def test_a_mean_is_rounded_to_what_a_decimal_may_be(texts, expected):
    assert expected == str(total_of(*texts).mean)


def test_what_was_taken_back_leaves_no_digit():
    total = total_of("1.1", "1.10", "0.0001", "1E+6")
    for text in ("0.0001", "1.10", "1E+6"):
        total.add(Decimal(text), -1)
    assert ("1.1", "1.1", 1) == (str(total.sum), str(total.mean), total.count)


@pytest.mark.parametrize("value", [None, True, "1.5", b"", Decimal("NaN"), float("inf"), 2**70])
def test_what_is_no_decimal_is_left_out(value):
    assert decimal(value) is None


def test_numbers_of_another_type_count_as_they_are_written():
    """The log may have them from before the attribute's type was changed."""
    assert ["0.1", "3"] == [str(decimal(value)) for value in (0.1, 3)]
    assert (0.5, None) == (binary(Decimal("0.5")), binary(Decimal("1E+6144")))
