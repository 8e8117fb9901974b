"""Who may do what: the grants of a caller, and the server's own topics."""

import pytest

from build import code_of
from rowcast.auth.anonymous import STRANGER
from rowcast.core.callers import ALL, NONE, SERVER, Caller, Grants
from rowcast.core.errors import Code
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter
from rowcast.features.rights.rights import Rights
from rowcast.rows.transcoder import Transcoder
from rowcast.seams.listeners import Listeners

RIGHTS = Rights([Table("Dog", "Dog")], Transcoder({}), None, Listeners())
"""Of a server at which nothing is said but grants."""

ANYBODY = Caller()
ANN = Caller("ann", ALL, "http")
READER = Caller("rob", Grants(read=True), "http")
LOCAL = Caller("anonymous", ALL, "http", peer="127.0.0.1")
REMOTE = Caller("anonymous", STRANGER, "http", peer="192.0.2.7")
"""Where ``security.anonymous`` is ``everywhere``."""


@pytest.mark.parametrize(
    ("caller", "topic", "expected"),
    [
        (ANN, "Dog/1", None),
        (READER, "Dog/1", Code.DENIED),
        (ANYBODY, "Dog/1", Code.UNAUTHENTICATED),
        (ANN, "$SYS/x", Code.DENIED),
        (ANN, "$SYS/sessions/c", None),
        (READER, "$SYS/sessions/c", Code.DENIED),
        (LOCAL, "$SYS/delayed/1", None),
        (REMOTE, "$SYS/delayed/1", Code.UNAUTHENTICATED),
        (REMOTE, "Dog/1", None),
        (ANN, "$delayed/5/Dog/1", None),
        (ANN, "$delayed/5/$SYS/x", Code.DENIED),
        (ANN, "$delayed/5/$SYS/users/x", Code.DENIED),  # it may hold a password
        (ANN, "$delayed/5/$SYS/sessions/c", None),
        (ANN, "$delayed/soon/Dog/1", Code.INVALID),
        (READER, "$delayed/5/Dog/1", Code.DENIED),
        (SERVER, "$SYS/x", None),
    ],
)
def test_who_may_write(caller, topic, expected):
    assert expected == code_of(RIGHTS.check_write, topic, caller)


def test_who_may_not_write_does_not_administer():
    assert Code.DENIED == code_of(RIGHTS.check_administer, "$SYS/sessions/c", READER)


@pytest.mark.parametrize(
    ("caller", "expected"),
    [
        (READER, None),
        (ANYBODY, Code.UNAUTHENTICATED),
        (Caller("rob", NONE), Code.DENIED),
    ],
)
def test_who_may_read(caller, expected):
    assert expected == code_of(RIGHTS.check_read, "Dog/1", caller)


@pytest.mark.parametrize(
    ("user", "topics", "expected"),
    [
        ("rob", "$SYS/users/rob", None),
        ("rob", "$SYS/users/+", Code.DENIED),
        ("+", "$SYS/users/+", Code.DENIED),
        ("#", "$SYS/users/#", Code.DENIED),
        ("rob/#", "$SYS/users/rob/#", Code.DENIED),
    ],
)
def test_l10_a_user_called_like_a_wildcard_watches_no_other_user(user, topics, expected):
    caller = Caller(user, Grants(read=True, write=True), "http")
    assert expected == code_of(RIGHTS.check_watch, TopicFilter(topics), caller)


@pytest.mark.parametrize(("caller", "expected"), [(ANN, None), (READER, Code.DENIED)])
def test_m11_who_declared_what_is_for_administrators(caller, expected):
    """M11: the schema tells who may do what, and names what nobody is shown."""
    assert expected == code_of(RIGHTS.check_read, "$SYS/schema/Dog", caller)
    assert expected == code_of(RIGHTS.check_watch, TopicFilter("$SYS/schema/#"), caller)
