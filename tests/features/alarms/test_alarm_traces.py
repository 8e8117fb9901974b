"""Alarms against a second automaton, over random traces of writes, commands and time (V5)."""

import asyncio
from datetime import datetime
from random import Random

import pytest
from alarm_model import Model, Periods, trace_of
from alarm_server import NOW, AlarmServer, sensor

KINDS = [(0, True), (53, True), (53, False), (303, True)]


def tenths(text):
    """Return a time of a row in tenths of seconds since the start."""
    if text is None:
        return None
    return round(10 * (datetime.fromisoformat(text).timestamp() - NOW))


def seen(told):
    """Return what was told as the model has it."""
    return [
        ("normal",)
        if item is None
        else (
            item["state"], item["count"], item["flapping"], tenths(item["raised_at"]),
            tenths(item["cleared_at"]), tenths(item["shelved_until"]),
        )
        for item in told
    ]  # fmt: skip


def expected(hold, hysteresis, trace, end):
    model = Model(Periods(hold), hysteresis)
    for at, name, *arguments in trace:
        model.until(at)
        getattr(model, name)(*arguments)
    model.until(end)
    return model


async def lived(hold, hysteresis, trace, end, chance=None):
    """Return the server after a trace; with ``chance`` it is killed at random moments."""
    server = AlarmServer(sensor(hold / 10, "temp=lt=75" if hysteresis else ""))
    await server.start()
    for at, name, *arguments in trace:
        if chance is not None and chance.random() < 0.25:  # it is down for a part of the pause
            moment = NOW + at / 10
            await server.until(server.time + (moment - server.time) * chance.random())
            await server.restart((moment - server.time) * chance.random())
        await server.until(NOW + at / 10)
        await server.apply(name, *arguments)
        if chance is not None and chance.random() < 0.25:  # right after the answer
            for _ in range(chance.randrange(8)):
                await asyncio.sleep(0)
            await server.restart()
    await server.until(NOW + end / 10)
    return server


@pytest.mark.parametrize(("hold", "hysteresis"), KINDS)
@pytest.mark.parametrize("seed", range(8))
async def test_v5_it_tells_what_the_second_automaton_tells(hold, hysteresis, seed):
    trace = trace_of(Random(seed))
    end = trace[-1][0] + 3_000
    model = expected(hold, hysteresis, trace, end)
    server = await lived(hold, hysteresis, trace, end)
    assert model.told == seen(server.told())
    assert len(model.told) > 2


@pytest.mark.parametrize(("hold", "hysteresis"), KINDS)
@pytest.mark.parametrize("seed", range(6))
async def test_v5_kills_neither_lose_nor_repeat_anything(hold, hysteresis, seed):
    trace = trace_of(Random(seed))
    end = trace[-1][0] + 3_000
    model = expected(hold, hysteresis, trace, end)
    server = await lived(hold, hysteresis, trace, end, Random(seed + 1_000))
    assert model.told == seen(server.told())


async def test_a_planted_mistake_is_noticed():
    """Were the hold a second longer, the traces would differ."""
    trace = trace_of(Random(3))
    end = trace[-1][0] + 3_000
    server = await lived(63, True, trace, end)
    assert expected(53, True, trace, end).told != seen(server.told())
