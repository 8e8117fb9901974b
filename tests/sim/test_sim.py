"""The simulation (O14): every promise holds on every seed, and a seed is a replay.

Rows it stands for: C2 (nothing lost, nothing twice), C22 (order), D15 (PUBACK after the commit),
B11 (atomic batches), A16 (conditions), E29 (a crash takes back nothing that was acknowledged),
D16 (QoS 2 exactly once), D18 (sent again), D27 (durable sessions), D29 (take-over), D31 (wills),
X12 (session expiry).
"""

import contextlib
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from sim_journal_plants import HIDDEN_JOURNAL_PLANTS, JOURNAL_PLANTS
from sim_plants import PLANTS
from sim_search import FEW, NAMED_FOR, expect_notice, notices
from sim_session_plants import HIDDEN_PLANTS as HIDDEN_SESSION_PLANTS
from sim_session_plants import SESSION_PLANTS
from sim_world import Failed, run

HIDDEN_PLANTS = HIDDEN_SESSION_PLANTS | HIDDEN_JOURNAL_PLANTS
QUICK = 20
ALL = 30
SEEDS_TO_NOTICE = 300
ROUGH_SEEDS = 100
NOTICED_BY = {
    "look_for_records_in_the_tables_alone": 5,
    "announce_past_a_batch_on_its_way": 28,
    "read_the_log_before_it_is_complete": 32,
    "let_facts_overtake": 1,
    "read_tables_that_are_behind": 8,
    "forget_topic_tables_with_the_process": 13,
    "keep_facts_after_their_write": 4,
    "forget_facts_that_are_tried_alone": 3,
    "ignore_evictions": 35,
    "split_groups": 1,
    "do_not_notice_the_trimmed_log": 29,
    "let_one_failing_write_fail_them_all": 3,
    "send_connack_before_the_session_is_on_disk": 3,
    "use_identifiers_twice": 8,
    "drop_topic_tables_that_hold_something": 1,
    "tell_of_records_as_they_were_written": 1,
    "ignore_the_receive_maximum": 29,
    "apply_one_batch_of_a_transaction": 1,
    "keep_counting_subscribers_that_are_gone": 3,
    "do_not_read_again_what_did_not_fit": 8,
    "drop_one_offered_event": 3,
    "hand_over_twice": 8,
    "keep_callers_pending": 6,
    "do_not_look_before_deciding": 4,
    "let_two_connections_have_a_session": 4,
    "publish_wills_after_goodbye": 3,
}
"""The seeds that noticed a mistake soonest when it was last looked for; the others are 0."""


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(QUICK))
def test_every_promise_is_kept(seed):
    run(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(QUICK, ALL))
def test_every_promise_is_kept_on_more_seeds(seed):
    run(seed)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(5))
def test_every_promise_is_kept_while_the_clock_leaps(seed):
    """P6: by more than a year, both ways, for less than is believed."""
    run(seed, leaps=True)


TESTS = Path(__file__).parent.parent


@pytest.mark.slow
def test_a_seed_is_a_replay():
    assert [run(seed)[0] for seed in range(5)] == [run(seed)[0] for seed in range(5)]


@pytest.mark.slow
def test_seeds_differ():
    assert 5 == len({run(seed)[0] for seed in range(5)})


@pytest.mark.slow
def test_a_seed_is_a_replay_in_another_process():
    digests = set()
    for hashing in ("1", "2"):
        result = subprocess.run(
            [sys.executable, Path(__file__).with_name("sim_cli.py"), "3"],
            env=os.environ | {"PYTHONHASHSEED": hashing, "PYTHONPATH": str(TESTS)},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        digests.add(result.stdout)
    assert 1 == len(digests)
    assert run(3)[0][:16] in digests.pop()


@pytest.mark.heavy
@pytest.mark.parametrize(
    "plant", (*PLANTS, *SESSION_PLANTS, *JOURNAL_PLANTS), ids=lambda plant: plant.__name__
)
def test_a_planted_mistake_is_noticed(monkeypatch, plant, caplog):
    plant(monkeypatch)
    named = (NOTICED_BY.get(plant.__name__, 0),)
    expect_notice(named, SEEDS_TO_NOTICE, _fails, "in NOTICED_BY")


def _fails(seed):
    try:
        run(seed)
    except Failed as failure:
        assert str(failure).startswith(f"seed {seed}: ")
        return True
    return False


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("plant", HIDDEN_PLANTS, ids=lambda plant: plant.__name__)
def test_a_hidden_mistake_is_noticed(plant):
    where = f"in HIDDEN_PLANTS; scripts/sim --plant {plant.__name__} --seeds 1000 finds some"
    noticed = partial(notices, plant=plant, rough=True)
    expect_notice(HIDDEN_PLANTS[plant], ROUGH_SEEDS, noticed, where)


@pytest.mark.skipif(sys.version_info[:2] != NAMED_FOR, reason="seeds are named for another Python")
def test_a_long_search_for_a_seed_is_told():
    expect_notice((7, 30), 100, lambda seed: seed == 30, "here")
    expect_notice((7, 30), 100, lambda seed: seed == FEW, "here")
    for noticing, told in (
        (50, "50 notices it, and none of (7,) any more: name it here"),
        (-1, "blind"),
    ):
        with pytest.raises(pytest.fail.Exception, match=re.escape(told)):
            expect_notice((7,), 100, lambda seed, wanted=noticing: seed == wanted, "here")


@pytest.mark.slow
def test_a_failing_seed_fails_again_alike(monkeypatch):
    PLANTS[0](monkeypatch)
    told = []
    for _ in range(2):
        with contextlib.suppress(StopIteration):
            told.append(next(_failures()))
    assert told[0] == told[1]
    assert "\n" in told[0]


def _failures():
    for seed in range(SEEDS_TO_NOTICE):
        try:
            run(seed)
        except Failed as failure:
            yield str(failure)
