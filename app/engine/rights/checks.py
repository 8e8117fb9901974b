"""Rights: what a caller may do, asked once for every verb of every door.

Until users and rules exist, a caller is either allowed or not (its grants), and topics that begin
with ``$`` are the server's own. It decides from the caller and the topic alone; it knows no
protocol.
"""

from typing import Final

from app.core.callers import Caller
from app.core.errors import Code, Error
from app.core.topics import DELAYED_PREFIX, split_delayed

ADMINISTERED: Final = (
    "$SYS/sessions/",
    "$SYS/delayed/",
    "$SYS/brokers/",
    "$SYS/dead_letters/",
    "$SYS/retained/",
    "$SYS/snapshots/",
)
"""Below these, what the server keeps may be ended by an administrator."""


def check_write(topic: str, caller: Caller) -> None:
    """Raise DENIED or UNAUTHENTICATED unless the caller may write at this topic."""
    if not caller.grants.write:
        raise _refused(caller, "write", topic)
    if topic.startswith(DELAYED_PREFIX):
        _, topic = split_delayed(topic)  # whoever may write a topic may do it later
    if topic[0] == "$" and caller.door != "server":
        if not topic.startswith(ADMINISTERED):
            raise Error(
                Code.DENIED, f"{topic!r} is the server's own: topics with $ cannot be written"
            )
        check_administer(topic, caller)


def check_administer(topic: str, caller: Caller) -> None:
    """Raise unless the caller may end what others have begun, and say who may do what."""
    if not caller.grants.administer:
        raise _refused(caller, "administer", topic)


def check_read(topic: str, caller: Caller) -> None:
    """Raise DENIED or UNAUTHENTICATED unless the caller may read what is at a topic or filter."""
    if not caller.grants.read:
        raise _refused(caller, "read", topic)


def _refused(caller: Caller, verb: str, topic: str) -> Error:
    if caller.user == "anonymous":
        return Error(
            Code.UNAUTHENTICATED,
            f"an anonymous caller may not {verb} {topic!r} from outside this machine; sign in",
        )
    return Error(Code.DENIED, f"{caller.user} may not {verb} {topic!r}")
