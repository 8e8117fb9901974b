"""Gaps: marks, accounts and how marks become few (M4)."""

from rowcast.core.events import MESSAGE, SNAPSHOT, Event
from rowcast.core.limits import GAP_MARKS_TOGETHER_MAX
from rowcast.core.topics import TopicFilter
from rowcast.subscriptions.gaps import Gap, GapCause, Gaps, LossCounter, mark_for, together
from rowcast.subscriptions.subscribed_filters import SubscribedFilter


def event(seq=0, kind=MESSAGE):
    made = Event("a", kind, b"")
    made.seq = seq
    return made


def facts(gaps):
    return [(gap.why, gap.count, gap.after, gap.last) for gap in gaps]


def test_what_follows_one_another_is_one_gap():
    gaps, one, two = Gaps(), SubscribedFilter(TopicFilter("a")), SubscribedFilter(TopicFilter("+"))
    for seq in (3, 4, 9):
        gaps.miss(event(seq), one, GapCause.EXPIRED)
    gaps.miss(event(10), two, GapCause.EXPIRED)
    gaps.miss(event(11), two, GapCause.TOO_LARGE)
    gaps.miss(event(), two, GapCause.TOO_LARGE)
    gaps.miss(event(), two, GapCause.TOO_LARGE)
    gaps.miss(event(5, SNAPSHOT), two, GapCause.TOO_LARGE)
    wanted = [
        (GapCause.EXPIRED, 3, 2, 9),
        (GapCause.EXPIRED, 1, 9, 10),
        (GapCause.TOO_LARGE, 1, 10, 11),
        (GapCause.TOO_LARGE, 3, 0, 0),
    ]
    assert wanted == facts(gaps.take())
    assert [] == gaps.take()
    assert {"expired": 4, "too_large": 4} == gaps.losses.rows()


def test_an_account_is_part_of_another():
    whole = LossCounter()
    part = LossCounter(whole)
    part.add(GapCause.SLOW, 3)
    LossCounter(whole).add(GapCause.AWAY)
    assert (3, {GapCause.SLOW: 3, GapCause.AWAY: 1}) == (part.total, whole.counts)


def test_a_queue_holds_few_marks():
    """Beyond a number of them one counts for everybody: memory is bounded, the sum exact."""
    queue = [event()]
    for number in range(3 * GAP_MARKS_TOGETHER_MAX):
        interest = SubscribedFilter(TopicFilter(f"a/{number}"))
        mark = mark_for(reversed(queue), interest)
        if mark is None:
            mark = Gap(GapCause.SLOW, 0, interest)
            queue.append(mark)
        mark.count += 1
    marks = queue[1:]
    assert GAP_MARKS_TOGETHER_MAX == len(marks)
    assert 3 * GAP_MARKS_TOGETHER_MAX == sum(mark.count for mark in marks)
    assert 1 == sum(mark.interest is None for mark in marks)


def test_what_has_no_place_in_the_log_is_told_together():
    one = SubscribedFilter(TopicFilter("a"))
    few = together(
        [
            Gap(GapCause.SLOW, 1, one),
            Gap(GapCause.AWAY, 2),
            Gap(GapCause.SLOW, 3, one),
            Gap(GapCause.EXPIRED, 4, None, 7, 9),
            Gap(GapCause.AWAY, 5),
        ]
    )
    assert [
        (GapCause.SLOW, 4, 0, 0),
        (GapCause.AWAY, 7, 0, 0),
        (GapCause.EXPIRED, 4, 7, 9),
    ] == facts(few)
    assert [one, None, None] == [gap.interest for gap in few]


def test_a_range_is_told_by_cursors():
    gap = Gap(GapCause.TRIMMED, None, None, 3, 9)
    told = {"from": "log:3", "to": "log:9", "count": None, "reason": "trimmed"}
    assert told == gap.facts(lambda seq: f"log:{seq}")
    assert gap.facts(str)["from"] == "3"
    assert {None} == {Gap(GapCause.SLOW, 1).facts(str)[name] for name in ("from", "to")}
