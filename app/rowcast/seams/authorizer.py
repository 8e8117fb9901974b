"""Authorisation: the interface that is called for every verb of every door.

The rights feature implements it, by extending ``Authorizer`` and replacing ``Seams.rights``.
Without it everything is denied, to the server itself as well: fail closed.
"""

from collections.abc import Callable

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event, Record
from rowcast.core.queries import Query
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter
from rowcast.subscriptions.stage import Stage


class Authorizer:
    """Decides what callers may do and see; methods that are not overridden deny.

    A check raises DENIED, or UNAUTHENTICATED where signing in may help.
    """

    active = True
    """Whether there is more than grants."""
    restricts = True
    """Whether rules or tables restrict more than grants now."""
    withholding = False
    """Whether there are topics that are left out: without, ``withholds`` is false."""
    policy: object = None
    """The current policy; replaced by another object on each change."""

    in_force: Callable[[], object] = staticmethod(lambda: None)
    """Returns what is declared of who may do what, for a ``fingerprint``."""

    # -- checks ------------------------------------------------------------------------------------

    def allows(self, caller: Caller, action: str, topics: str) -> bool:  # noqa: ARG002
        """Whether a caller may act on a topic or a filter; records no refusal."""
        return False

    def withholds(self, topic: str, caller: Caller) -> bool:  # noqa: ARG002
        """Whether a topic is left out of what a caller may read; that refuses no collection."""
        return False

    def check_read(self, topic: str, caller: Caller) -> None:
        """Raise unless a caller may read a topic."""
        raise _refused(caller, "read", topic)

    def check_table(self, table: Table, caller: Caller) -> None:
        """Raise unless it may read any of a table's records."""
        raise _refused(caller, "read", table.path or table.name)

    def check_watch(self, topics: TopicFilter, caller: Caller) -> None:
        """Raise unless it may read any topic that a filter matches."""
        raise _refused(caller, "read", topics.text)

    def check_subscribe(self, topics: TopicFilter, caller: Caller) -> None:
        """Raise unless it may subscribe to a filter."""
        raise _refused(caller, "read", topics.text)

    def check_index(self, caller: Caller) -> None:
        """Raise unless it may read anything."""
        raise _refused(caller, "read", "/")

    def check_write(self, topic: str, caller: Caller, kind: str = "") -> None:  # noqa: ARG002
        """Raise unless it may write at a topic; ``kind`` is that of the event."""
        raise _refused(caller, "write", topic)

    def check_resource(self, topic: str, caller: Caller) -> None:
        """Raise unless it may send something to a resource class, beside ``check_writer``."""
        raise _refused(caller, "write", topic)

    def check_writer(self, topic: str, caller: Caller) -> None:
        """Raise unless it may write anything at or below a topic; called before a body is read."""
        raise _refused(caller, "write", topic or "/")

    def check_administer(self, topic: str, caller: Caller) -> None:
        """Raise unless it may administer: close others' connections, and change rights."""
        raise _refused(caller, "administer", topic)

    # -- visibility --------------------------------------------------------------------------------

    def may_read(self, caller: Caller, topic: str) -> bool:  # noqa: ARG002
        """Whether a caller may read a topic, as far as the topic decides."""
        return False

    def record(self, caller: Caller, record: Record) -> Record | None:  # noqa: ARG002
        """Return a record as a caller sees it: itself, a changed copy, or None."""
        return None

    def shown(self, caller: Caller, event: Event) -> Event | None:  # noqa: ARG002
        """Return an event as a caller sees it: itself, a changed copy, or None."""
        return None

    def sight(self, caller: Caller) -> object:  # noqa: ARG002
        """Return what decides about the records that a caller sees: another after a change."""
        return None

    def stage(self, caller: Caller) -> Stage | None:
        """Return the stage of events for a new subscription; None: all unchanged."""
        raise _refused(caller, "read", "#")

    # -- tables ------------------------------------------------------------------------------------

    def limits(self, caller: Caller, table: Table) -> bool:  # noqa: ARG002
        """Whether a caller sees less than all of a table's records and attributes."""
        return True

    def mixed(self, caller: Caller, table: Table) -> bool:  # noqa: ARG002
        """Whether each of a table's topics must be checked separately."""
        return True

    def narrowed(self, caller: Caller, table: Table, query: Query) -> Query | None:  # noqa: ARG002
        """Return a query restricted to what a caller sees; None if that is nothing."""
        return None


def _refused(caller: Caller, verb: str, topic: str) -> Error:
    return Error(Code.DENIED, f"{caller.user} may not {verb} {topic!r}: no rights are installed")
