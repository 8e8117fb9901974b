"""How points are dispatched, and what a hook's mistakes cost (G1-G20, G22)."""

import asyncio
import logging

import pytest

from build import turns
from rowcast.core.callers import ALL, SERVER, Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, Event
from rowcast.core.topics import TopicFilter
from rowcast.features.hooks import hooks as hooks_module
from rowcast.features.hooks.bounds import HookBounds
from rowcast.features.hooks.hook import DROP, POINTS, Hook, Refusal
from rowcast.features.hooks.hooks import HAPPENINGS, Hooks
from rowcast.subscriptions.subscribed_filters import SubscribedFilter

ANN = Caller("ann", ALL, "mqtt", "ann-1", "10.0.0.1")


class Clock:
    """A clock that a hook moves."""

    now = 0.0

    def __call__(self):
        return self.now


def make(name, base=Hook, **methods):
    """Return a hook whose methods are these functions."""
    body = {"id": name} | methods
    return type(name, (base,), body)()


def saying(log, name, point, answer=None):
    """Return a method that notes its call and answers, or raises its answer."""

    def method(_self, *_arguments):
        log.append(f"{name}.{point}")
        if isinstance(answer, Exception):
            raise answer
        return answer

    return method


def added(*given, **options):
    hooks = Hooks(**options)
    for item in given:
        hooks.add(item)
    return hooks


def event(topic="a/b", payload=b"x", qos=1):
    return Event(topic, MESSAGE, payload, qos=qos)


# -- G1: the object ------------------------------------------------------------------------------


def test_g1_a_hook_is_called_only_where_it_overrides_or_says_so():
    log = []
    quiet = make("quiet", on_publish=saying(log, "quiet", "p"), provides=lambda *_: False)
    hooks = added(quiet, make("loud", on_publish=saying(log, "loud", "p")), Hook())
    hooks.publish(ANN, event())
    assert ["loud.p"] == log
    assert [point for point in POINTS if Hook().provides(point)] == []


async def test_g1_options_reach_init_and_stop_is_called_in_reverse():
    log = []
    first = make("first", init=lambda _, options: log.append(dict(options)),
                 stop=saying(log, "first", "stop"))  # fmt: skip

    async def stop(_self):
        log.append("second.stop")

    hooks = Hooks()
    hooks.add(first, {"depth": 3})
    hooks.add(make("second", stop=stop))
    await hooks.start()
    await hooks.stop()
    assert [{"depth": 3}, "second.stop", "first.stop"] == log


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (Error(Code.INVALID, "depth should be positive"), "depth should be positive"),
        (ValueError("no such host"), "ValueError: no such host"),
    ],
)
async def test_g1_an_init_that_fails_aborts_the_start(failure, words):
    log = []
    hooks = added(
        make("good", stop=saying(log, "good", "stop")),
        make("bad", init=saying(log, "bad", "init", failure), stop=saying(log, "bad", "stop")),
    )
    with pytest.raises(Error, match=words) as raised:
        await hooks.start()
    assert Code.INVALID == raised.value.code
    assert "the hook 'bad' could not begin" in raised.value.message
    assert ["bad.init", "good.stop"] == log  # only what had begun is ended


# -- G11: fail-fast ------------------------------------------------------------------------------


async def test_g11_g2_the_first_refusal_ends_it_and_chooses_the_reason():
    log = []
    hooks = added(
        make("a", on_connect=saying(log, "a", "c")),
        make("b", on_connect=saying(log, "b", "c", Refusal(0x8A, "banned"))),
        make("c", on_connect=saying(log, "c", "c")),
    )
    with pytest.raises(Refusal, match="banned") as raised:
        await hooks.connect(ANN, None)
    assert (0x8A, Code.DENIED) == (raised.value.reason, raised.value.code)
    assert ["a.c", "b.c"] == log


def test_g11_g5_on_publish_refuses_before_anything_is_changed():
    log = []
    hooks = added(
        make("a", on_publish_received=saying(log, "a", "received")),
        make("b", on_publish=saying(log, "b", "publish", Error(Code.DENIED, "no"))),
        make("c", on_publish=saying(log, "c", "publish")),
    )
    with pytest.raises(Error, match="no"):
        hooks.publish(ANN, event())
    assert ["b.publish"] == log


@pytest.mark.parametrize(
    ("reason", "code"),
    [(0x86, Code.UNAUTHENTICATED), (0x87, Code.DENIED), (0x97, Code.BUSY), (0x80, Code.DENIED)],
)
def test_g2_the_reason_of_mqtt_is_a_code_of_every_door(reason, code):
    assert code == Refusal(reason, "no").code


# -- G12: transform chain ------------------------------------------------------------------------


def adding(letter):
    def method(_self, _caller, given):
        return Event(given.topic, given.kind, given.payload + letter)

    return method


@pytest.mark.parametrize("way", ["publish", "deliver"])
def test_g12_each_changes_what_the_one_before_gave(way):
    point = {"publish": "on_publish_received", "deliver": "on_publish_deliver"}[way]
    same = make("same", **{point: lambda *_: None})
    hooks = added(make("a", **{point: adding(b"a")}), same, make("b", **{point: adding(b"b")}))
    assert b"xab" == getattr(hooks, way)(ANN, event()).payload
    assert hooks.writing == (way == "publish")
    assert hooks.delivering == (way == "deliver")


@pytest.mark.parametrize("way", ["publish", "deliver"])
def test_g12_a_dropped_message_is_not_shown_to_the_next(way):
    point = {"publish": "on_publish_received", "deliver": "on_publish_deliver"}[way]
    log = []
    hooks = added(make("a", **{point: lambda *_: DROP}), make("b", **{point: saying(log, "b", "")}))
    assert getattr(hooks, way)(ANN, event()) is None
    assert [] == log


def test_g12_g4_a_filter_is_changed_or_refused():
    def lower(_self, _caller, interest):
        interest.qos = 0

    def rename(_self, caller, interest):
        return SubscribedFilter(TopicFilter(f"{caller.user}/{interest.topics.text}"), interest.qos)

    hooks = added(make("lower", on_subscribe=lower), make("rename", on_subscribe=rename))
    form = object()
    interest = SubscribedFilter(TopicFilter("a/#"), 1, form=form)
    hooks.subscribe(ANN, interest)
    assert ("ann/a/#", 0, form) == (interest.topics.text, interest.qos, interest.form)


@pytest.mark.parametrize("answer", [True, "a/b", 5])
def test_g12_an_answer_of_another_type_is_a_mistake(answer):
    points = ("on_publish_received", "on_publish_deliver", "on_subscribe")
    hooks = added(make("odd", **dict.fromkeys(points, lambda *_: answer)))
    with pytest.raises(Error) as raised:
        hooks.publish(ANN, event())
    assert Code.INTERNAL == raised.value.code
    with pytest.raises(Error):
        hooks.subscribe(ANN, SubscribedFilter(TopicFilter("a")))
    assert hooks.deliver(ANN, event()) is None
    assert 3 == hooks.figures()[0].failures


async def test_g3_a_hook_that_exits_refuses_and_ends_no_server():
    """G3: sys.exit of a library that it calls."""

    def leave(*_):
        raise SystemExit

    async def leave_later(*_):
        raise SystemExit

    hooks = added(make("leaves", on_publish=leave, on_connect=leave_later))
    with pytest.raises(Error) as raised:
        hooks.publish(ANN, event())
    assert Code.INTERNAL == raised.value.code
    with pytest.raises(Error) as raised:
        await hooks.connect(ANN)
    assert Code.INTERNAL == raised.value.code


# -- G13: notify all -----------------------------------------------------------------------------

NOTICES = {
    "on_connected": ("connected", (ANN,)),
    "on_disconnect": ("disconnected", (ANN, "gone")),
    "on_session_created": ("session_created", (ANN,)),
    "on_session_resumed": ("session_resumed", (ANN,)),
    "on_session_ended": ("session_ended", ("ann-1",)),
}


@pytest.mark.parametrize("point", NOTICES)
def test_g13_g3_g9_one_that_fails_does_not_stop_the_rest(point):
    method, arguments = NOTICES[point]
    heard = []
    hooks = added(
        make("broken", **{point: lambda *_: 1 / 0}),
        make("refusing", **{point: saying([], "", "", Error(Code.DENIED, "no"))}),
        make("good", **{point: lambda _, *given: heard.append(given)}),
    )
    getattr(hooks, method)(*arguments)
    assert [arguments] == heard
    assert [1, 1, 0] == [item.failures for item in hooks.figures()]


async def test_g13_g22_an_asynchronous_listener_hears_in_order_and_holds_up_nobody():
    heard, gate = [], asyncio.Event()

    async def slow(_self, caller, error=None):
        await gate.wait()
        heard.append((caller.user, error))

    hooks = added(make("slow", on_connected=slow, on_disconnect=slow))
    hooks.connected(ANN)
    hooks.disconnected(ANN, "gone")
    await turns()
    assert [] == heard
    gate.set()
    await turns()
    assert [("ann", None), ("ann", "gone")] == heard


async def test_g13_notices_beyond_the_bound_are_lost_and_counted():
    async def slow(_self, _caller):
        heard.append(1)

    heard = []
    hooks = added(make("slow", on_connected=slow), bounds=HookBounds(notices=2))
    for _ in range(5):
        hooks.connected(ANN)
    await turns()
    assert (2, 3) == (len(heard), hooks.figures()[0].failures)


async def test_g13_stop_lets_listeners_hear_what_waits():
    heard = []

    async def slow(_self, _caller):
        await turns()
        heard.append(1)

    hooks = added(make("slow", on_connected=slow))
    hooks.connected(ANN)
    await hooks.stop()
    assert [1] == heard


# -- G15: all must pass --------------------------------------------------------------------------


def test_g15_g6_any_hook_denies_reading_and_a_mistake_denies_too():
    log = []
    hooks = added(
        make("a", can_read=lambda _, _caller, topic: topic != "secret"),
        make("b", can_read=lambda _, _caller, topic: topic != "broken" or 1 / 0),
        make("c", can_read=saying(log, "c", "r", answer=True)),
    )
    assert [True, False, False] == [
        hooks.may_read(ANN, topic) for topic in ("open", "secret", "broken")
    ]
    assert ["c.r"] == log
    assert hooks.reading


def test_the_server_itself_asks_nobody():
    hooks = added(make("none", can_read=lambda *_: False, on_subscribe=lambda *_: 1 / 0))
    assert hooks.may_read(SERVER, "a")
    hooks.subscribe(SERVER, SubscribedFilter(TopicFilter("a")))


# -- G16: nobody listens -------------------------------------------------------------------------


async def test_g16_nobody_listens():
    hooks = Hooks()
    assert not (hooks.writing or hooks.reading or hooks.delivering or hooks.write_waits)
    await hooks.connect(ANN, None)
    for method, arguments in NOTICES.values():
        getattr(hooks, method)(*arguments)
    given = event()
    assert hooks.publish(ANN, given) is given
    assert hooks.deliver(ANN, given) is given
    assert hooks.may_read(ANN, "a")
    assert [] == hooks.figures()


# -- G17, G18: events ----------------------------------------------------------------------------


def test_g17_g18_x2_the_seven_events_and_their_arguments():
    hooks, heard = Hooks(), []
    for name in HAPPENINGS:
        hooks.on(name, lambda *given, name=name: heard.append((name, *given)))
    interest, given = SubscribedFilter(TopicFilter("a")), event()
    hooks.connection(ANN)
    hooks.connected(ANN)
    hooks.auth_failed(ANN, "wrong password")
    hooks.disconnected(ANN, None)
    hooks.subscribed(ANN, interest)
    hooks.published(ANN, given)
    hooks.unsubscribed(ANN, "a")
    socket = hooks_module.Socket("10.0.0.1", "mqtt")
    refused = hooks_module.Socket("10.0.0.1", "mqtt", "wrong password")
    assert [
        ("connection", ANN, socket),
        ("connected", ANN, socket),
        ("auth-failed", ANN, refused),
        ("disconnected", ANN, socket),
        ("subscribe", [interest], ANN),
        ("publish", given, ANN),
        ("unsubscribe", ["a"], ANN),
    ] == heard


def test_g17_a_caller_without_a_peer_has_no_socket():
    hooks, heard = Hooks(), []
    hooks.on("connected", lambda session, socket: heard.append((session, socket)))
    hooks.connected(SERVER)
    assert [(SERVER, None)] == heard


def test_g17_an_unknown_event_is_refused_with_the_nearest_name():
    with pytest.raises(Error, match='did you mean "connected"'):
        Hooks().on("conected", print)


# -- G22: budget and isolation -------------------------------------------------------------------


def timed(hooks, clock):
    for attached in hooks._attached:
        attached.clock = clock
    return hooks


def test_g22_a_slow_hook_is_counted_and_named_once_in_a_while(caplog):
    clock = Clock()

    def slow(_self, _caller, topic):
        clock.now += float(topic)
        return True

    hooks = timed(added(make("molasses", can_read=slow)), clock)
    with caplog.at_level(logging.WARNING, "rowcast.features.hooks"):
        for seconds in ("0.01", "0.051", "0.2", "0.1"):
            hooks.may_read(ANN, seconds)
    figures = hooks.figures()[0]
    assert ("molasses", 4, 3, 0) == (figures.id, figures.calls, figures.slow, figures.failures)
    assert (0.361, 0.2) == (
        pytest.approx(figures.total_seconds),
        pytest.approx(figures.max_seconds),
    )
    (line,) = caplog.messages
    assert "molasses" in line
    clock.now += 10
    with caplog.at_level(logging.WARNING, "rowcast.features.hooks"):
        hooks.may_read(ANN, "0.1")
    assert 2 == len(caplog.messages)


def test_g22_a_mistake_refuses_with_an_incident_that_is_in_the_log(caplog):
    hooks = added(make("broken", on_publish=lambda *_: {}["secret word"]))
    with pytest.raises(Error) as first:
        hooks.publish(ANN, event())
    with pytest.raises(Error) as second:
        hooks.publish(ANN, event())
    assert Code.INTERNAL == first.value.code
    assert "secret word" not in first.value.message
    assert first.value.detail["incident"] in caplog.text
    assert "broken" in caplog.text
    assert first.value.detail == second.value.detail  # one line for a burst of them
    assert 2 == hooks.figures()[0].failures


async def test_g22_an_asynchronous_hook_has_a_time_out():
    async def never(_self, _caller, _packet):
        await asyncio.Event().wait()

    hooks = added(make("never", on_connect=never), bounds=HookBounds(seconds=0))
    with pytest.raises(Error) as raised:
        await hooks.connect(ANN, None)
    assert Code.INTERNAL == raised.value.code
    assert 1 == hooks.figures()[0].failures


@pytest.mark.parametrize("point", ["can_read", "on_publish_deliver"])
def test_g22_what_cannot_wait_is_refused_at_once(point):
    async def slow(*_arguments):
        return True

    with pytest.raises(Error, match=f"{point} of the hook 'slow' is async"):
        added(make("slow", **{point: slow}))


def test_g22_a_plain_function_that_gives_a_coroutine_refuses():
    async def later():
        """Never awaited."""

    hooks = added(make("sly", on_publish=lambda *_: later(), can_read=lambda *_: later()))
    with pytest.raises(Error) as raised:
        hooks.publish(ANN, event())
    assert Code.INTERNAL == raised.value.code
    assert not hooks.may_read(ANN, "a")
