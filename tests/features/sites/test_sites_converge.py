"""Sites converge, whatever the network does; what lost unseen is a row (K3)."""

import random

import pytest
from simulated_sites import DELETE, MESSAGE, PATCH, PUT, SimulatedSites, Site

from rowcast.core.topics import TopicFilter
from rowcast.store.sqlite import SqlStore
from rowcast.writes.last_write_wins import stamp_of

TOPICS = "Dog/1", "Dog/2", "u/1"
SITES = "0000000a", "0000000b", "0000000c"
SEEDS_USUAL = 40
SEEDS = 100
"""`scripts/sites` plays a thousand."""


def world(ahead=(0.0, 0.0, 0.0)):
    return SimulatedSites(*(Site(name, more) for name, more in zip(SITES, ahead, strict=True)))


def rows(world):
    return [set(site.conflicts.names) for site in world.sites.values()]


def shown(site, topic):
    """Return the stamps that a subscriber at a site was shown of a topic's record."""
    return [stamp_of(event, site.name) for event in site.heard.events
            if event.topic == topic and event.kind != MESSAGE]  # fmt: skip


async def play(seed):
    """Write at three sites, while what they send is delayed, repeated, lost and sent again."""
    dice = random.Random(seed)
    it = world([dice.uniform(-5, 5) for _ in SITES])
    marked = seed % 2 == 0
    left = dice.randint(3, 16)
    while left or it.letters:
        if left and (not it.letters or dice.random() < 0.4):
            left -= 1
            await some_write(it, dice, left)
            continue
        letter = it.letters.pop(dice.randrange(len(it.letters)))
        fate = dice.random()
        if fate < 0.2:  # lost, and sent again later
            it.letters.append(letter)
            continue
        await it.deliver(letter, marked=marked)
        if fate < 0.4:
            await it.deliver(letter, marked=marked)
    return it


async def some_write(it, dice, number):
    name, topic = dice.choice(SITES), dice.choice(TOPICS)
    it[name].server.time += dice.uniform(0, 1)
    kind = dice.choice([PUT, PUT, PATCH, DELETE])
    await it.write(name, topic, kind, b'{"name":"%d"}' % number)


async def check(seed):
    await converged(await play(seed))


async def converged(it):
    """Require that all sites have the same, and a row of each write that is lost unseen."""
    first, *others = await it.states(*TOPICS)
    assert [first] * 2 == others
    for site in it.sites.values():
        assert site.rows == set(site.conflicts.names)
        for topic in TOPICS:
            stamps = shown(site, topic)
            assert stamps == sorted(set(stamps))
    lost = set().union(*(site.rows for site in it.sites.values()))
    for topic, stamp in it.seen:
        winner = it[SITES[0]].truth[topic].current
        followed = any(
            at == topic and seen.get(stamp[1], 0) >= stamp[0] for (at, _), seen in it.seen.items()
        )
        followed |= any(at == topic and by[1] == stamp[1] and by > stamp for at, by in it.seen)
        assert stamp == winner or followed or f"{stamp[0]}@{stamp[1]}/{topic}" in lost


@pytest.mark.parametrize("seed", range(SEEDS_USUAL))
async def test_three_sites_converge_and_no_write_is_lost_unseen(seed):
    """K3: equal values, versions and times of creation, and the rows that there must be."""
    await check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(SEEDS_USUAL, SEEDS, 30))
async def test_more_orders_and_delays(first):
    """K3."""
    for seed in range(first, first + 30):
        await check(seed)


class Results:
    """A site whose tables take large results; one is begun, staged page by page, and switched."""

    def __init__(self, path, dice):
        more = [dice.uniform(-5, 5) for _ in SITES]
        self.dice = dice
        self.store = SqlStore(path / f"{dice.random()}.db", epoch=SITES[0], synced=False)
        first, *others = zip(SITES, more, strict=True)
        self.it = SimulatedSites(
            Site(*first, store=self.store), *(Site(*other) for other in others)
        )

    async def step(self):
        """Stage a page, or switch to what is staged; most pages are of topics that others write."""
        it, dice, (name, *_) = self.it, self.dice, SITES
        it[name].server.time += dice.uniform(0, 1)
        staged = it[name].result
        if staged is not None and dice.random() < 0.4:
            await it.switch(name)
            return
        left = {"Dog/1", "Dog/2"} - (set(staged[1]) if staged is not None else set())
        if left:
            some = dice.sample(sorted(left), dice.randint(1, len(left)))
            known = {topic: it[name].truth.get(topic) for topic in some}
            gone = [
                topic for topic, truth in known.items() if truth and await it[name].value(topic)
            ]
            kind, some = (DELETE, gone) if gone and dice.random() < 0.3 else (PUT, some)
            await it.stage(name, some, kind, b'{"name":"r%d"}' % dice.randint(0, 999))

    async def play(self):
        """Let a site write results while all write, and what they send is delayed and repeated."""
        it, dice = self.it, self.dice
        left = dice.randint(5, 25)
        while left or it.letters or it[SITES[0]].result:
            if left and (not it.letters or dice.random() < 0.5):
                left -= 1
                await (self.step() if dice.random() < 0.5 else some_write(it, dice, left))
                continue
            if not it.letters:
                await it.switch(SITES[0])
                continue
            letter = it.letters.pop(dice.randrange(len(it.letters)))
            if dice.random() < 0.2:
                it.letters.append(letter)
                continue
            await it.deliver(letter, marked=dice.random() < 0.5)


@pytest.mark.parametrize("seed", range(SEEDS_USUAL // 2))
async def test_sites_converge_while_one_stages_large_results(seed, tmp_path):
    """K3, M5: newer writes win over staged rows here as elsewhere, and are overwritten nowhere."""
    results = Results(tmp_path, random.Random(seed))
    await results.play()
    await converged(results.it)
    results.store.close()


async def test_k3_retained_messages_of_scenario_a_b_c_converge():
    """K3: #1 of A is on its way while #2 is written at B, and comes to C after it."""
    it = world()
    a, b, c = SITES
    first = await it.write(a, "Dog/1", PUT, b'{"name":"#1"}')
    it[b].server.time += 1
    second = await it.write(b, "Dog/1", PUT, b'{"name":"#2"}')
    await it.pick(b, c)
    await it.pick(a, c)
    row = f"{first}@{a}/Dog/1"
    assert ([(second, b)], [row]) == (shown(it[c], "Dog/1"), it[c].conflicts.names)
    await it.settle()
    states = await it.states("Dog/1")
    assert (states[0],) * 3 == tuple(states)
    assert '"#2"' in states[0][0][0]
    assert [(first, a), (second, b)] == shown(it[a], "Dog/1")
    assert [(second, b)] == shown(it[b], "Dog/1") == shown(it[c], "Dog/1")
    assert [{row}] * 3 == rows(it)


async def test_k3_messages_of_scenario_a_b_c_are_all_delivered():
    """E27: not retained: each site delivers both, #1 after #2 where it comes so.

    In a ring of bridges a message comes by both ways, and is delivered twice.
    """
    it = world()
    a, b, c = SITES
    for site in it.sites.values():
        site.kernel.durable.add(TopicFilter("u/#"))  # as a bridge has them logged
    await it.write(a, "u/1", MESSAGE, b"#1")
    await it.write(b, "u/1", MESSAGE, b"#2")
    await it.pick(b, c)
    await it.settle()
    heard = [[event.payload for event in site.heard.events] for site in it.sites.values()]
    once = [list(dict.fromkeys(payloads)) for payloads in heard]
    assert [[b"#1", b"#2"], [b"#2", b"#1"], [b"#2", b"#1"]] == once
    assert [set()] * 3 == rows(it)


async def test_k3_in_scenario_a_b_c_a_write_that_had_seen_the_first_is_no_conflict():
    """K3: B has #1 when it writes #2, so #1 is lost to nobody, though it comes to C after #2."""
    it = world()
    a, b, c = SITES
    await it.write(a, "Dog/1", PUT, b'{"name":"#1"}')
    await it.pick(a, b)
    await it.write(b, "Dog/1", PATCH, b'{"age":2}')
    await it.pick(b, c)  # b sends #1 on, too
    await it.settle()
    assert [set()] * 3 == rows(it)
    states = await it.states("Dog/1")
    assert (states[0],) * 3 == tuple(states)


async def test_writes_one_after_the_other_are_no_conflicts():
    """K3: whoever writes has heard all; whatever comes twice or late changes nothing."""
    it, dice = world(), random.Random(1)
    for number in range(30):
        await some_write(it, dice, number)
        letters = list(it.letters)
        await it.settle()
        for letter in dice.sample(letters, len(letters)):
            await it.deliver(letter, marked=False)
    assert [set()] * 3 == rows(it)


async def test_what_a_loser_had_seen_is_seen():
    """K3: C overwrote #1 of A, lost to B, and wrote again: #1 is no loser, #2 is one."""
    it = world()
    a, b, c = SITES
    await it.write(a, "Dog/1", PUT, b'{"name":"#1"}')
    await it.pick(a, c)
    second = await it.write(c, "Dog/1", PUT, b'{"name":"#2"}')
    it[b].server.time += 1
    await it.write(b, "Dog/1", PUT, b'{"name":"#3"}')
    await it.pick(b, c)
    await it.write(c, "Dog/1", PUT, b'{"name":"#4"}')
    last = [letter for letter in it.letters if b"#4" in letter.payload and letter.receiver == a]
    await it.deliver(last[0])
    await it.settle()
    assert ([], [f"{second}@{c}/Dog/1"]) == (it[a].conflicts.names, it[c].conflicts.names)
    assert [site.rows for site in it.sites.values()] == rows(it)
