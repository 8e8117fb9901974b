"""Authorisation: who may do what, asked for every verb of every door.

The rights feature answers, by extending ``Authorizer`` and taking its place in ``Seams.rights``.
Without it the answer is no, also to the server itself: nothing is allowed by omission.
"""

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event, Record
from rowcast.core.queries import Query
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter
from rowcast.subscriptions.stage import Stage


class Authorizer:
    """Decides what callers may do and what they are shown; what is not overridden is refused.

    A check raises DENIED, or UNAUTHENTICATED where signing in may help.
    """

    active = True
    """Whether anything but grants decides."""
    restricts = True
    """Whether rules or tables say more than grants now."""
    policy: object = None
    """All that is said; another object as soon as anything else is."""

    # -- may it ------------------------------------------------------------------------------------

    def allows(self, caller: Caller, action: str, topics: str) -> bool:  # noqa: ARG002
        """Answer a question about a topic or a filter, without noting a refusal."""
        return False

    def check_read(self, topic: str, caller: Caller) -> None:
        """Raise unless a caller may be given what is at a topic."""
        raise _refused(caller, "read", topic)

    def check_table(self, table: Table, caller: Caller) -> None:
        """Raise unless it may be given any of a table's records."""
        raise _refused(caller, "read", table.path or table.name)

    def check_watch(self, topics: TopicFilter, caller: Caller) -> None:
        """Raise unless it may be given anything that a filter selects."""
        raise _refused(caller, "read", topics.text)

    def check_index(self, caller: Caller) -> None:
        """Raise unless it may be given anything at all."""
        raise _refused(caller, "read", "/")

    def check_write(self, topic: str, caller: Caller, kind: str = "") -> None:  # noqa: ARG002
        """Raise unless it may write at a topic; ``kind`` is that of the event."""
        raise _refused(caller, "write", topic)

    def check_writer(self, topic: str, caller: Caller) -> None:
        """Raise unless it may write anything at or below a topic: a body will tell what."""
        raise _refused(caller, "write", topic or "/")

    def check_administer(self, topic: str, caller: Caller) -> None:
        """Raise unless it may end what others have begun, and say who may do what."""
        raise _refused(caller, "administer", topic)

    # -- what is shown -----------------------------------------------------------------------------

    def may_read(self, caller: Caller, topic: str) -> bool:  # noqa: ARG002
        """Tell whether a caller is given what is at a topic, as far as the topic decides."""
        return False

    def record(self, caller: Caller, record: Record) -> Record | None:  # noqa: ARG002
        """Return what a record is to a caller: itself, another, or nothing."""
        return None

    def shown(self, caller: Caller, event: Event) -> Event | None:  # noqa: ARG002
        """Return what an event is to a caller: itself, another, or nothing."""
        return None

    def stage(self, caller: Caller) -> Stage | None:
        """Return what each event is to a caller who begins to watch; None: all as it is."""
        raise _refused(caller, "read", "#")

    # -- tables ------------------------------------------------------------------------------------

    def limits(self, caller: Caller, table: Table) -> bool:  # noqa: ARG002
        """Tell whether a caller is shown less than all of a table's records and attributes."""
        return True

    def mixed(self, caller: Caller, table: Table) -> bool:  # noqa: ARG002
        """Tell whether each of a table's topics has to be asked about."""
        return True

    def narrowed(self, caller: Caller, table: Table, query: Query) -> Query | None:  # noqa: ARG002
        """Return a query that selects only what a caller is shown; None where that is nothing."""
        return None


def _refused(caller: Caller, verb: str, topic: str) -> Error:
    return Error(Code.DENIED, f"{caller.user} may not {verb} {topic!r}: no rights are installed")
