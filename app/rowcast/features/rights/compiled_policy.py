"""The compiled policy: what one kind of caller may do, and what it sees; made from the policy once.

``decide`` is the one place where a question about a topic is answered, and says which rule did:
the rest of the policy first, then the access list, for both must allow;
``show`` is the one place where it is said what an event is to a caller.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from rowcast.core.alarms import alarmed_topic
from rowcast.core.bounded import ClearedCache
from rowcast.core.callers import ADMIN, Grants
from rowcast.core.claims import Facts
from rowcast.core.events import Event, Record
from rowcast.core.freshness import told_of
from rowcast.core.right_limits import SIGHT_TOPICS_MAX
from rowcast.core.tables import Table
from rowcast.core.topic_rules import BoundRule, Combining, RulesOf
from rowcast.core.topic_tables import owner_of
from rowcast.core.topics import is_pattern, levels_below
from rowcast.features.rights.access_list import ListedRights
from rowcast.features.rights.decision import Decision
from rowcast.features.rights.policy import Policy
from rowcast.features.rights.row_policy import RowPolicy
from rowcast.features.rights.table_rules import TableRules, table_rules
from rowcast.rows.topic_rows import Row
from rowcast.rows.transcoder import Transcoder

_GRANTED: Final = {
    "read": "read",
    "subscribe": "read",
    "write": "write",
    "publish": "write",
    "administer": "administer",
}
_WRITING: Final = ("write", "publish")

_PRIVATE: Final = Decision(False, "what the server tells of itself is for administrators")
_ADMIN: Final = Decision(True, "the role 'admin' may do everything")


@dataclass(frozen=True, slots=True)
class Subject:
    """What callers of one kind have in common."""

    user: str
    roles: frozenset[str]
    grants: Grants
    facts: Facts
    access: ListedRights | None = None
    """What the access list allows; None if there is no list."""


class CompiledPolicy:
    """The rights of one kind of caller."""

    def __init__(
        self,
        policy: Policy,
        subject: Subject,
        transcoder: Transcoder,
        current: Callable[[str], Record | None],
        topics_max: int = SIGHT_TOPICS_MAX,
    ) -> None:
        self._policy = policy
        self._subject = subject
        self._transcoder = transcoder
        self._current = current
        self._access = subject.access
        roles = subject.roles
        self.admin = ADMIN in roles
        bound = [
            BoundRule(rule, rule.patterns(subject.facts))
            for rule in (() if self.admin else policy.rules)
            if rule.concerns(subject.user, roles, "")
        ]
        self._rules = RulesOf(bound, Combining.DENIAL_WINS)
        self._tables = dict(self._row_policies(() if self.admin else policy.tables))
        self.compares = not self.admin and (policy.restricts or policy.remembered)
        """Whether what it sees of an event may depend on earlier ones."""
        reading = next(self._rules.answering("read"), None)
        self._reads_all = reading is None and subject.grants.read and self._access is None
        """Whether only tables, and what is the server's own, decide about what it is given."""
        self._answers: ClearedCache[tuple[str, str], bool] = ClearedCache(topics_max)
        self._mixed: dict[str, bool] = {}

    def _row_policies(self, tables: Iterable[Table]) -> Iterator[tuple[str, RowPolicy]]:
        for table in tables:
            row_policy = self._table_policy(table) if table.path is not None else None
            if row_policy is not None:
                yield table.name, row_policy

    def _table_policy(self, table: Table) -> RowPolicy | None:
        """Return what it sees of a table; None if that is all of it."""
        roles, facts = self._subject.roles, self._subject.facts
        wanted = levels_below(table.path or "")

        def said_of(action: str) -> TableRules:
            answering = self._rules.answering(action)
            rules = (item.rule for item in answering if item.covers(wanted))
            return table_rules(rules, table, facts)

        reading, writing = said_of("read"), said_of("write")
        if reading.says_nothing and writing.says_nothing and not table.restricted:
            return None
        return RowPolicy(table, roles, facts, self._transcoder, reading, writing)

    # -- topics ------------------------------------------------------------------------------------

    def lets(self, action: str, topic: str) -> bool:
        """Whether it may do something at a topic."""
        key = action, topic
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers.put(key, self.decide(action, topic).allowed)
        return answer

    def decide(self, action: str, topic: str) -> Decision:
        """Answer a question about one topic."""
        decision = self.by_policy(action, told_of(topic) or topic)  # who may know of it
        return self.and_list(decision, action, topic)

    def by_list(self, action: str, text: str) -> Decision | None:
        """Return what the access list says of a topic or filter; None if it says nothing.

        A record's silence is read by who may read the record; to subscribe to it is asked for.
        """
        if self._access is None:
            return None
        if action == "read":
            text = told_of(text) or text
        return self._access.decide(action, text.split("/"))

    def denied_by_list(self, action: str, topic: str) -> Decision | None:
        """Return the access list's denial of what all else allows; None if there is none."""
        listed = self.by_list(action, topic)
        if listed is None or listed.allowed:
            return None
        return listed if self.by_policy(action, told_of(topic) or topic).allowed else None

    def and_list(self, decision: Decision, action: str, text: str) -> Decision:
        """Return what the policy and the access list say together: both must allow."""
        listed = self.by_list(action, text) if decision.allowed else None
        if listed is None:
            return decision
        if not listed.allowed:
            return listed
        return Decision(True, f"{decision.because}; {listed.because}")

    def by_policy(self, action: str, topic: str) -> Decision:
        """Answer a question about one topic, all but the access list."""
        if self.admin:
            return _ADMIN
        levels = topic.split("/")
        decision = self._by_rules(action, levels)
        unsaid = decision is None or levels[1:2] == ["rules"]  # no rule shows what rules there are
        if unsaid and action != "administer" and self._is_private(levels):
            decision = _PRIVATE
        decision = decision or self._by_grants(action)
        return self._by_table(action, topic) or decision if decision.allowed else decision

    def decide_filter(self, text: str, action: str) -> Decision:
        """Answer a question about a topic or a filter.

        To be read, a filter needs no rule of the access list: of it is shown what the list allows.
        """
        if not is_pattern(text):
            return self.decide(action, text)
        decision = self.watches(text, action)
        return self.and_list(decision, action, text) if action == "subscribe" else decision

    def watches(self, text: str, action: str = "subscribe") -> Decision:
        """Say whether it may watch a filter: anything of it, since it is shown no more than that.

        A denial of all of it decides; a denial of a part keeps that part from being delivered. The
        access list is not asked.
        """
        if self.admin or not is_pattern(text):
            return self.by_policy(action, told_of(text) or text)
        levels = text.split("/")
        decided = self._by_rules(action, levels)
        if decided is not None and not decided.allowed:
            return decided
        allowing = self._rules.allowing_some(action, levels)
        if allowing is not None:
            return Decision(True, f"the rule {allowing.name!r} allows some of it")
        return _PRIVATE if self._is_private(levels) else self._by_grants(action)

    def writes_below(self, topic: str) -> bool:
        """Whether it may write anything at a topic or below it; at all, if that is empty.

        The access list is asked about each write.
        """
        if self.admin:
            return True
        if topic and any(self.by_policy(action, topic).allowed for action in _WRITING):
            return True
        if self._rules.allowing_some("publish", levels_below(topic)) is not None:
            return True
        return not topic and self._subject.grants.write

    def _by_rules(self, action: str, levels: list[str]) -> Decision | None:
        """Return what rules say of the whole of a topic or filter."""
        rule = self._rules.deciding(action, levels)
        if rule is None:
            return None
        return Decision(
            rule.allows, f"the rule {rule.name!r} {'allows' if rule.allows else 'denies'} it"
        )

    def _by_table(self, action: str, topic: str) -> Decision | None:
        """Return that what is said of a table's records refuses it, whatever the record."""
        table = owner_of(topic, self._policy.tables)
        row_policy = self._tables.get(table.name) if table is not None else None
        if table is None or row_policy is None:
            return None
        refused = row_policy.closed if action in {"write", "publish"} else row_policy.sees_nothing
        if action == "administer" or not refused:
            return None
        return Decision(
            False, f"no @auth and no rule about records of {table.name} lets it {action}"
        )

    def _is_private(self, levels: list[str]) -> bool:
        """Whether a topic is what the server tells of itself, for administrators."""
        if levels[0] != "$SYS" or self._subject.grants.administer:
            return False
        return self._policy.restricts or levels[1:2] == ["rules"]

    def _by_grants(self, action: str) -> Decision:
        grant = _GRANTED[action]
        allowed = bool(getattr(self._subject.grants, grant))
        words = "has" if allowed else "has not"
        return Decision(allowed, f"no rule says anything of it, and the user {words} {grant!r}")

    # -- records -----------------------------------------------------------------------------------

    def table(self, table: Table) -> RowPolicy | None:
        """Return what it sees of a table; None if that is all."""
        return self._tables.get(table.name)

    def mixed(self, table: Table) -> bool:
        """Whether rules or the access list let it have some of a table's topics only."""
        known = self._mixed.get(table.name)
        if known is None:
            wanted = levels_below(table.path or "")
            listed = self._access is not None and not self._access.opens(wanted)
            known = self._mixed[table.name] = listed or any(
                not item.rule.attributes and item.divides(wanted)
                for item in self._rules.answering("read")
            )
        return known

    def show(self, event: Event, *, record: bool = False) -> Event | None:
        """Return what an event is to it: itself, another, or nothing.

        ``record``: it is asked for as what is there, and not as what happened.
        """
        topic = event.topic
        if not topic:
            return event  # a mark, which is about the stream itself
        if isinstance(event, Row) and not self.lets("read", event.about):
            return None
        if not self.lets("read", topic):
            return None
        table = event.table
        if table is None:
            return event if topic[0] != "$" or self._sees_silence(topic) else None
        row_policy = self._tables.get(table.name)
        if row_policy is None:
            return event
        return row_policy.record(event) if record else row_policy.show(event)

    def untouched(self, event: Event) -> bool:
        """Tell at once of an event that it is given as it is; a mark, which has no topic, is so."""
        if not self._reads_all:
            return not event.topic
        table = event.table
        if table is None:
            return event.topic[:1] != "$"
        return table.name not in self._tables and not isinstance(event, Row)

    def _sees_silence(self, topic: str) -> bool:
        """Whether it may hear that a record is silent or has an alarm: if it may see that now."""
        of = told_of(topic) or alarmed_topic(topic)
        table = owner_of(of, self._policy.tables) if of is not None else None
        row_policy = self._tables.get(table.name) if table is not None else None
        if of is None or row_policy is None or row_policy.sees_all:
            return True
        record = self._current(of)
        return record is not None and row_policy.sees(record)
