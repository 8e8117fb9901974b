"""Rights: authorisation of every verb of every door.

A caller has grants, which allow reading, writing or administration in general. The policy refines
them: topic rules, which are rows and change at run time, the ``@auth`` of tables, and the access
list of the settings. With grants only, all of this is one check of ``active``.

It knows no protocol. ``policy.py`` documents the policy.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from rowcast.core.bounded import BoundedCache, ClearedCache
from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, Event, Record
from rowcast.core.queries import Query
from rowcast.core.right_limits import COMPILED_POLICIES_MAX, SIGHT_TOPICS_MAX
from rowcast.core.tables import Table
from rowcast.core.topic_rules import TopicRule
from rowcast.core.topic_tables import AUDIT, AUDIT_LEVEL, REFUSALS
from rowcast.core.topics import (
    DELAYED_PREFIX,
    REPLAYS,
    RESULTS,
    SERVERS_OWN,
    TRANSACTIONS,
    TopicFilter,
    split_delayed,
)
from rowcast.features.rights.access_list import AccessList
from rowcast.features.rights.compiled_policy import CompiledPolicy, Subject
from rowcast.features.rights.decision import Decision
from rowcast.features.rights.policy import ANONYMOUS, Kind, Policy, fact_of
from rowcast.features.rights.row_guard import guard_row
from rowcast.features.rights.row_policy import RowPolicy
from rowcast.features.rights.shown_events import RightsStage
from rowcast.reads.record_cache import Unknown
from rowcast.routes.registry import Route
from rowcast.rows.transcoder import Transcoder
from rowcast.seams.authorizer import Authorizer
from rowcast.seams.listeners import Listeners
from rowcast.subscriptions.reader import Reader
from rowcast.subscriptions.stage import Stage
from rowcast.writes.write import Step, Write

ADMINISTERED: Final = (
    "$SYS/alarms/",
    "$SYS/alarm_deliveries/",
    "$SYS/sessions/",
    "$SYS/streams/",
    "$SYS/subscriptions/",
    "$SYS/delayed/",
    "$SYS/brokers/",
    "$SYS/cluster/nodes/",
    "$SYS/dead_letters/",
    "$SYS/conflicts/",
    "$SYS/retained/",
    "$SYS/jobs/",
    "$SYS/rules/",
    "$SYS/slow_subscriptions/",
    "$SYS/snapshots/",
    "$SYS/users/",
    "$SYS/roles/",
    "$CONTROL/dynamic-security/",
)
"""Paths below which an administrator may end objects."""

PRIVATE: Final = (
    "$SYS/users", "$SYS/roles", "$SYS/rules", "$SYS/policy", "$SYS/schema", AUDIT_LEVEL, AUDIT,
    REFUSALS, "$CONTROL",
)  # fmt: skip
"""Paths that only administrators may read; a user may read its own row."""


_VERBS: Final = {"write": "write", "subscribe": "subscribe to"}

_OWN: Final = Decision(True, "a user reads its own row")
_PRIVATE: Final = Decision(False, "this is for administrators; a user reads its own row")


class Rights(Authorizer):
    """The rights of all callers of one kernel."""

    def __init__(
        self,
        tables: Sequence[Table],
        transcoder: Transcoder,
        reader: Reader,
        listeners: Listeners,
        access: AccessList | None = None,
        policies_max: int = COMPILED_POLICIES_MAX,
        topics_max: int = SIGHT_TOPICS_MAX,
    ) -> None:
        self._transcoder = transcoder
        self._reader = reader
        self._listeners = listeners
        self.changed: Callable[[], None] = lambda: None
        """Called on a change of the policy: compiled routes are invalid, and live readers are
        reauthorised."""
        self._compiled: BoundedCache[Kind, CompiledPolicy] = BoundedCache(policies_max)
        self._known: ClearedCache[Caller, CompiledPolicy | None] = ClearedCache(policies_max)
        self._topics_max = topics_max
        self._grant_step: Step = self._check_grant  # one for all routes
        self._take(Policy(tuple(tables), access=access or AccessList()))

    def _take(self, policy: Policy) -> None:
        self.policy: Policy = policy
        self.active, self.restricts = policy.active, policy.restricts
        self.withholding = bool(policy.access)
        self._paths, self._roles, self._users = policy.paths, policy.roles, policy.users
        self._compiled.clear()
        self._known.clear()
        self.changed()

    def replace(self, rules: Sequence[TopicRule]) -> None:
        """Replace the topic rules."""
        self._take(replace(self.policy, rules=tuple(rules)))

    def remember_rules(self) -> None:
        """Note that the log may have rules, even if there are none now."""
        if not self.policy.remembered:
            self._take(replace(self.policy, remembered=True))

    # -- kinds of callers --------------------------------------------------------------------------

    def compiled(self, caller: Caller) -> CompiledPolicy | None:
        """Return the compiled policy of a caller; None if only its grants apply."""
        if not self.active or caller.door == "server":
            return None
        if caller in self._known:
            return self._known[caller]
        compiled = self.compiled_policy_of(caller)
        free = compiled.admin and not self.policy.access
        return self._known.put(caller, None if free else compiled)

    def compiled_policy_of(self, caller: Caller) -> CompiledPolicy:
        """Return the compiled policy of any caller."""
        access = self.policy.access
        kind: Kind = (
            access.kind(caller),
            caller.roles & self._roles,
            caller.grants,
            caller.user if caller.user in self._users else None,
            *(_told_apart(fact_of(caller, path)) for path in self._paths),
        )
        compiled = self._compiled.get(kind)
        if compiled is None:
            subject = Subject(
                caller.user,
                caller.roles,
                caller.grants,
                lambda path: fact_of(caller, path),
                access.of(caller),
            )
            compiled = CompiledPolicy(
                self.policy, subject, self._transcoder, self._current, self._topics_max
            )
            self._compiled.put(kind, compiled)
        return compiled

    def _current(self, topic: str) -> Record | None:
        """Return a cached record."""
        record = self._reader.peek(topic)
        return None if isinstance(record, Unknown) else record

    def of_table(self, caller: Caller, table: Table | None) -> RowPolicy | None:
        """Return a caller's row policy of a table; None if it sees everything."""
        if not self.active or table is None:
            return None
        compiled = self.compiled(caller)
        return compiled.table(table) if compiled is not None else None

    def _refused(self, caller: Caller, verb: str, topic: str, action: str = "") -> Error:
        """Return the Error of a refusal, and report it (L9).

        ``action`` is what was asked of the access list, too: what only the list denies is DENIED
        for an anonymous caller as well.
        """
        compiled = self.compiled(caller) if action else None
        listed = compiled.denied_by_list(action, topic) if compiled is not None else None
        if caller.user == ANONYMOUS and listed is None:
            words = f"an anonymous caller may not {verb} {topic!r}; sign in"
            error = Error(Code.UNAUTHENTICATED, words)
        else:
            error = Error(Code.DENIED, f"{caller.user} may not {verb} {topic!r}")
        self._listeners.refused(caller, verb, topic, error)
        return error

    # -- topics ------------------------------------------------------------------------------------

    def allows(self, caller: Caller, action: str, topics: str) -> bool:
        """Whether a caller may act on a topic or a filter; records no refusal."""
        return self.decide(caller, action, topics).allowed

    def decide(self, caller: Caller, action: str, topic: str) -> Decision:
        """Decide on a topic or a filter, with the cause."""
        compiled = self.compiled_policy_of(caller)
        asked = "read" if action == "subscribe" else action
        if topic.startswith(PRIVATE) and not compiled.admin:
            if not self._lets(caller, asked, topic):
                return _PRIVATE
            if not caller.grants.administer:
                return compiled.and_list(_OWN, action, topic)
        return compiled.decide_filter(topic, action)

    def _lets(self, caller: Caller, action: str, topic: str) -> bool:
        """Whether a caller may act on a topic, but for the access list."""
        if topic.startswith(PRIVATE) and not caller.grants.administer:
            return _is_own(caller, action, topic)
        compiled = self.compiled(caller)
        if compiled is not None:
            return compiled.by_policy(action, topic).allowed
        return _is_granted(caller, action)

    def and_list(self, decision: Decision, caller: Caller, action: str, topic: str) -> Decision:
        """Return a decision about a record together with what the access list says of its topic."""
        return self.compiled_policy_of(caller).and_list(decision, action, topic)

    def _may(self, caller: Caller, action: str, topic: str) -> bool:
        compiled = self.compiled(caller)
        if topic.startswith(PRIVATE) and not caller.grants.administer:
            own = _is_own(caller, action, topic)
            return own and (compiled is None or compiled.and_list(_OWN, action, topic).allowed)
        if compiled is not None:
            return compiled.lets(action, topic)
        return _is_granted(caller, action)

    def withholds(self, topic: str, caller: Caller) -> bool:
        """Whether only the access list denies reading a topic; it refuses no collection."""
        compiled = self.compiled(caller)
        return compiled is not None and compiled.denied_by_list("read", topic) is not None

    def check_read(self, topic: str, caller: Caller) -> None:
        """Raise DENIED or UNAUTHENTICATED unless the caller may read a topic."""
        said = self.active or topic.startswith(SERVERS_OWN)  # more than grants
        if not (self._may(caller, "read", topic) if said else caller.grants.read):
            raise self._refused(caller, "read", topic, "read")

    def check_table(self, table: Table, caller: Caller) -> None:
        """Raise likewise unless it may read any of a table's records.

        What the access list denies is not refused but left out.
        """
        compiled, path = self.compiled(caller), table.path or table.name
        if compiled is None:
            self.check_read(path, caller)
            return
        of_table = compiled.table(table)
        everything = TopicFilter.below(table.path or "").text
        nothing = of_table is not None and of_table.sees_nothing
        if nothing or not compiled.watches(everything, "read").allowed:
            raise self._refused(caller, "read", path)

    def check_watch(self, topics: TopicFilter, caller: Caller) -> None:
        """Raise likewise unless it may read any topic that a filter matches."""
        compiled = self.compiled(caller)
        allowed = caller.grants.read if compiled is None else compiled.watches(topics.text).allowed
        if topics.text.startswith(PRIVATE):
            named = topics.exact or caller.grants.administer  # a user may be called '+'
            allowed = named and self._lets(caller, "read", topics.text)
        if not allowed:
            raise self._refused(caller, "read", topics.text)

    def check_subscribe(self, topics: TopicFilter, caller: Caller) -> None:
        """Raise likewise unless it may watch a filter, and the access list allows all of it."""
        self.check_watch(topics, caller)
        self._check_list("subscribe", topics.text, caller)

    def _check_list(self, action: str, text: str, caller: Caller) -> None:
        compiled = self.compiled(caller)
        listed = compiled.by_list(action, text) if compiled is not None else None
        if listed is not None and not listed.allowed:
            error = Error(Code.DENIED, f"{caller.user} may not {_VERBS[action]} {text!r}")
            self._listeners.refused(caller, "write" if action == "write" else "read", text, error)
            raise error

    def check_write(self, topic: str, caller: Caller, kind: str = "") -> None:
        """Raise likewise unless the caller may write at this topic."""
        self._check_policy(topic, caller, kind)
        if topic[0] == "$":  # at other topics the list was asked, too
            self._check_list("write", split_delayed(topic)[1], caller)

    def check_resource(self, topic: str, caller: Caller) -> None:
        """Raise unless the access list lets it send something to a resource class."""
        self._check_list("write", topic, caller)

    def _check_policy(self, topic: str, caller: Caller, kind: str) -> None:
        system = topic[0] == "$"
        if system and topic.startswith(DELAYED_PREFIX):
            _, topic = split_delayed(topic)  # the right to write a topic includes delayed writes
            system = topic[0] == "$"
            if topic.startswith(PRIVATE):  # waiting writes are stored, including passwords
                raise Error(Code.DENIED, f"{topic!r} is written at once or not at all")
        if not system or caller.door == "server":
            action = "publish" if kind == MESSAGE else "write"
            said = system or self.active
            if not (self._may(caller, action, topic) if said else caller.grants.write):
                raise self._refused(caller, "write", topic, action)
            return
        if not caller.grants.write and not self.active:
            raise self._refused(caller, "write", topic)
        if topic == TRANSACTIONS:
            return  # each of its writes is checked
        if topic == REPLAYS or topic.startswith((f"{REPLAYS}/", f"{RESULTS}/")):
            self._check_writes_any(topic, caller)
            return
        if not topic.startswith(ADMINISTERED):
            words = (
                f"{topic!r} is the server's own: topics with $ cannot be written, except for "
                "$delayed/SECONDS/TOPIC, which is written at TOPIC when it is due, and $tx, which "
                "takes a transaction"
            )
            error = Error(Code.DENIED, words)
            self._listeners.refused(caller, "write", topic, error)
            raise error
        self.check_administer(topic, caller)

    def _check_writes_any(self, topic: str, caller: Caller) -> None:
        """Raise unless the caller may write something, wherever that is."""
        compiled = self.compiled(caller)
        if not (caller.grants.write if compiled is None else compiled.writes_below("")):
            raise self._refused(caller, "write", topic)

    def step(self, route: Route) -> Step:
        """Return the step that checks the right to write at a route's topic."""
        if route.topic[0] == "$" or self.active:
            check = self.check_write if self.withholding else self._check_policy
            return lambda write: check(write.event.topic, write.caller, write.event.kind)
        return self._grant_step

    def _check_grant(self, write: Write) -> None:
        if not write.caller.grants.write:
            raise self._refused(write.caller, "write", write.event.topic)

    def row_step(self, route: Route) -> Step | None:
        """Return the step that adds checks if rights depend on the record."""
        table = route.table
        if table is None or not self.active:
            return None

        def guard(write: Write) -> None:
            row_policy = self.of_table(write.caller, table)
            if row_policy is not None and row_policy.guards:
                guard_row(write, row_policy)

        return guard

    def check_index(self, caller: Caller) -> None:
        """Raise unless the caller may read anything."""
        compiled = self.compiled(caller)
        if not (caller.grants.read if compiled is None else compiled.watches("#", "read").allowed):
            raise self._refused(caller, "read", "/")

    def check_writer(self, topic: str, caller: Caller) -> None:
        """Raise unless the caller may write at or below a topic; called before the body."""
        if not self.active and caller.grants.write and topic[:1] != "$":
            return
        compiled = self.compiled(caller) if self.active else None
        if compiled is None or topic[:1] == "$":
            self._check_policy(topic or "/", caller, "")
        elif not compiled.writes_below(topic):
            raise self._refused(caller, "write", topic or "/")

    def check_administer(self, topic: str, caller: Caller) -> None:
        """Raise unless the caller may administer: close others' connections, and change rights."""
        if not self._may(caller, "administer", topic):
            raise self._refused(caller, "administer", topic)

    # -- visibility --------------------------------------------------------------------------------

    def may_read(self, caller: Caller, topic: str) -> bool:
        """Whether a caller may read a topic, as far as the topic decides."""
        compiled = self.compiled(caller)
        return compiled is None or compiled.lets("read", topic)

    def shown(self, caller: Caller, event: Event) -> Event | None:
        """Return an event as a caller sees it: itself, a changed copy, or None."""
        compiled = self.compiled(caller)
        return event if compiled is None else compiled.show(event)

    def sight(self, caller: Caller) -> object:
        """Return what decides about the records that a caller sees: another after a change."""
        return self.compiled(caller)

    def stage(self, caller: Caller) -> Stage | None:
        """Return the stage of events for a new subscription; None: all unchanged."""
        return RightsStage(self, caller) if self.compiled(caller) is not None else None

    def record(self, caller: Caller, record: Record) -> Record | None:
        """Return a record as a caller sees it: itself, a changed copy, or None."""
        compiled = self.compiled(caller)
        return record if compiled is None else compiled.show(record, record=True)

    def may_publish(self, caller: Caller, topic: str) -> bool:
        """Whether a caller may send a message to an undeclared topic."""
        return self._may(caller, "publish", topic)

    def narrowed(self, caller: Caller, table: Table, query: Query) -> Query | None:
        """Return a query restricted to what a caller sees; None if that is nothing."""
        row_policy = self.of_table(caller, table)
        return query if row_policy is None else row_policy.narrowed(query)

    def limits(self, caller: Caller, table: Table) -> bool:
        """Whether a caller sees less than all of a table's records and attributes."""
        row_policy = self.of_table(caller, table)
        return row_policy is not None and not row_policy.shows_all

    def mixed(self, caller: Caller, table: Table) -> bool:
        """Whether each of a table's topics must be checked separately."""
        compiled = self.compiled(caller)
        return compiled is not None and compiled.mixed(table)


def _is_granted(caller: Caller, action: str) -> bool:
    grants = caller.grants
    if action in {"read", "subscribe"}:
        return grants.read
    return grants.administer if action == "administer" else grants.write


def _is_own(caller: Caller, action: str, topic: str) -> bool:
    """Whether a caller asks to read its own row, which is for administrators else."""
    return action == "read" and topic == f"{PRIVATE[0]}/{caller.user}"


def _told_apart(value: object) -> str:
    return repr(value)  # 1, 1.0 and true are equal keys, but differ in rules
