"""Who may do what (FEATURES: the grants of a caller, and the server's own topics)."""

import pytest
from engine_room import code_of

from app.core.callers import ALL, NONE, SERVER, Caller, Grants
from app.core.errors import Code
from app.engine.rights import check_read, check_write

ANYBODY = Caller()
ANN = Caller("ann", ALL, "http")
READER = Caller("rob", Grants(read=True), "http")


@pytest.mark.parametrize(
    ("caller", "topic", "expected"),
    [
        (ANN, "Dog/1", None),
        (READER, "Dog/1", Code.DENIED),
        (ANYBODY, "Dog/1", Code.UNAUTHENTICATED),
        (ANN, "$SYS/x", Code.DENIED),
        (SERVER, "$SYS/x", None),
    ],
)
def test_who_may_write(caller, topic, expected):
    assert expected == code_of(check_write, topic, caller)


@pytest.mark.parametrize(
    ("caller", "expected"),
    [
        (READER, None),
        (ANYBODY, Code.UNAUTHENTICATED),
        (Caller("rob", NONE), Code.DENIED),
    ],
)
def test_who_may_read(caller, expected):
    assert expected == code_of(check_read, "Dog/1", caller)
