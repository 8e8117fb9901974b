"""Queries on related records against REST: random conditions, parts and windows (M3, A9)."""

import random

from query_readers import DOORS, FEW, query_server, write_and_check
from random_queries import SPARE, random_window
from related_queries import (
    KEYS,
    TABLES,
    random_condition,
    random_parts,
    random_related,
    random_write_of_any,
)

from rowcast.features.live_queries.feature import LiveQueriesOfTables


async def ask_any(opened, chance, name, doors, *, select, window):
    """Open readers of conditions on related records that REST answers.

    With ``select`` of parts of them, with ``window`` of the first of an order.
    """
    while True:
        asked = random_related(chance, name)
        if window:
            asked = f"{asked}&{random_window(chance, TABLES[name])}"
        if select:
            parts = random_parts(chance, name)
            asked = parts if chance.random() < 0.2 else f"{asked}&{parts}"
        answer = await opened.rest.get(f"/{opened.path}/?{asked}") if "." in asked else None
        if answer is not None and answer.status == 200:
            await opened.open(asked, doors)
            return


async def run_related(
    seed, writes, cuts, tables=TABLES, doors=DOORS, select=False, window=False, **options
):
    """Run one random case; return what the readers heard. Raises AssertionError."""
    chance = random.Random(seed)
    name = chance.choices(list(KEYS), (5, 3, 1))[0]
    others = [table for table in tables.values() if table.name != name]
    if window and "features" not in options:
        live = LiveQueriesOfTables(spare_records_min=chance.choice(SPARE))
        options = options | {"features": [live]}
    async with query_server(tables[name], others=others, **options) as opened:
        for _ in range(chance.randrange(30)):
            await opened.write(random_write_of_any(chance))
        await ask_any(opened, chance, name, doors, select=select, window=window)
        await opened.check()
        await write_and_check(opened, chance, writes, cuts, FEW, random_write_of_any)
        heard = [kind for reader in opened.readers for kind in reader.heard]
    assert 0 == len(opened.server.live_queries)
    assert 0 == len(opened.server.live_queries.views)
    return heard


WAYS = (("Owner/{}/dogs", "Dog", "abcd"), ("Dog/{}/friends", "Dog", "12345"))
WAYS += (("City/{}/owners", "Owner", "xyz"), ("Owner/{}/dogs", "Dog", "a"))
"""Relationships that lead to several records, where they lead, and from which records."""


async def run_relationship(seed, writes, cuts, tables=TABLES, doors=DOORS, **options):
    """Run one random case of the records of a relationship; return what the readers heard."""
    chance = random.Random(seed)
    way, name, keys = chance.choice(WAYS)
    others = [table for table in tables.values() if table.name != name]
    if "features" not in options:
        live = LiveQueriesOfTables(spare_records_min=chance.choice(SPARE))
        options = options | {"features": [live]}
    at = way.format(chance.choice(keys))
    async with query_server(tables[name], others=others, at=at, **options) as opened:
        for _ in range(chance.randrange(30)):
            await opened.write(random_write_of_any(chance))
        asked = _asked_there(chance, name)
        while 200 != (await opened.rest.get(f"/{name}/?{asked}")).status:
            asked = _asked_there(chance, name)
        await opened.open(asked, doors)
        await opened.check()
        await write_and_check(opened, chance, writes, cuts, FEW, random_write_of_any)
        heard = [kind for reader in opened.readers for kind in reader.heard]
    assert 0 == len(opened.server.live_queries)
    assert 0 == len(opened.server.live_queries.views)
    return heard


def _asked_there(chance, name):
    """Return random conditions, and maybe a window, and selected parts."""
    asked = random_related(chance, name) if chance.random() < 0.3 else random_condition(chance)
    if chance.random() < 0.3:
        asked = f"{asked}&{random_window(chance, TABLES[name])}"
    if chance.random() < 0.3:
        asked = f"{asked}&{random_parts(chance, name)}"
    return asked
