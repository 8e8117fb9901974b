"""Rows of ``$SYS/rules``: the topic rules, which administrators change at run time (L10).

    PUT    $SYS/rules/guests {"filter": "home/#", "effect": "deny", "actions": ["write"],
                              "roles": ["guest"]}
    PATCH  $SYS/rules/guests {"roles": ["guest", "visitor"]}
    GET    $SYS/rules/       all of them
    DELETE $SYS/rules/guests

A row is an ordinary record, so its writer and time are known, and administrators can subscribe. It
takes effect in the turn in which it is written; live readers are reauthorised. That there were
rules is stored as a fact, because the log still has them after the last one is deleted. Live
queries are notified of each change, before it takes effect: who may no longer read it has it leave.
"""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from rowcast.core.callers import SERVER
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PUT, Record
from rowcast.core.limits import SCAN_PAGE_RECORDS
from rowcast.core.merge_patch import merge_patch
from rowcast.core.right_limits import RULE_ROWS_MAX
from rowcast.core.topic_rules import TopicRule
from rowcast.core.topics import RULES, TopicFilter
from rowcast.features.rights.rights import Rights
from rowcast.features.rights.rule_syntax import MEMBERS, rule_of, stored_rule_of
from rowcast.routes.system_rows import SystemRows
from rowcast.store.store import Change
from rowcast.writes.write import Receipt

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel

PATH: Final = RULES
OWNER: Final = "rules/"
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,80}")

Facts = Mapping[str, object]


class RuleTable:
    """The rows of one kernel, and the rules in effect."""

    def __init__(self, kernel: "Kernel", rights: Rights) -> None:
        self._kernel = kernel
        self._rights = rights
        self.rows: dict[str, Facts] = {}
        self._rules: dict[str, TopicRule] = {}
        self.changing = asyncio.Lock()
        """Held from a look at a rule until its change is in effect."""
        self.changed: Callable[[str], object] = lambda _name: None
        """Called with the name of each rule that was put or removed."""

    async def load(self, facts: Sequence[object] = ()) -> None:
        """Load stored rows; raises INVALID for an invalid one.

        ``facts`` are those of the owner OWNER.
        """
        topics, after, more = TopicFilter(f"{PATH}/+"), "", True
        while more:
            page = await self._kernel.reader.scan(None, topics, after, SCAN_PAGE_RECORDS)
            for record in page.records:
                self._take(record)
                after = record.topic
            more = page.more and bool(page.records)
        if facts:
            self._rights.remember_rules()
        if self._rules:
            self.remember()
            self._rights.replace(tuple(self._rules.values()))

    def remember(self) -> None:
        """Restrict the visibility of rules, before the first one is announced."""
        if not self._rights.policy.remembered:
            self._kernel.committer.keep((Change(OWNER, "remembered", b"1"),))
            self._rights.remember_rules()

    def _take(self, record: Record) -> None:
        name = record.topic.removeprefix(f"{PATH}/")
        value = self._kernel.transcoder.value(record)
        try:
            rule = stored_rule_of(name, value, self._rights.policy.tables)
        except Error as error:
            raise Error(Code.INVALID, f"{record.topic}: {error.message}") from None
        self._keep(name, rule, value)

    def _keep(self, name: str, rule: TopicRule, value: object) -> None:
        self._rules[name] = rule
        self.rows[name] = value if isinstance(value, Mapping) else {}

    def judge(self, name: str, value: object) -> TopicRule:
        """Parse a new row; raises INVALID, TOO_LARGE."""
        if _NAME.fullmatch(name) is None:
            raise Error(
                Code.INVALID,
                f"{name[:100]!r} is no name of a rule: letters, digits, '_', '.' and '-', at most "
                "80 of them",
            )
        if name not in self._rules and len(self._rules) >= RULE_ROWS_MAX:
            raise Error(Code.TOO_LARGE, f"there are {RULE_ROWS_MAX} rules already; join some")
        return rule_of(name, value, self._rights.policy.tables)

    def put(self, name: str, rule: TopicRule, value: object) -> None:
        """Apply a stored rule."""
        self._keep(name, rule, value)
        self._replace(name)

    def _replace(self, name: str) -> None:
        self.changed(name)
        self._rights.replace(tuple(self._rules.values()))

    def follow(self, event: Record) -> None:
        """Apply a row that another process of this server has written."""
        name = event.topic.removeprefix(f"{PATH}/")
        if event.kind == DELETE:
            self.remove(name)
            return
        if not self._rights.policy.remembered:
            self._rights.remember_rules()
        self._take(event)
        self._replace(name)

    def remove(self, name: str) -> None:
        """Remove a rule."""
        self.rows.pop(name, None)
        if self._rules.pop(name, None) is not None:
            self._replace(name)


class RowsOfRules(SystemRows):
    """One row for each rule; extended with the table that has them."""

    path = PATH
    versioned = True
    members = ("id", *MEMBERS)
    followed = None
    recorded = True
    table: ClassVar[RuleTable]

    def names(self) -> Sequence[str]:
        """Return the names of all rules."""
        return list(self.table.rows)

    def row(self, name: str, *, whole: bool) -> dict[str, object] | None:  # noqa: ARG002
        """Return a rule."""
        facts = self.table.rows.get(name)
        return None if facts is None else {"id": name, **facts}

    async def put(self, value: object) -> None:
        """Create or replace a rule."""
        async with self.table.changing:
            await self._put(value)

    async def _put(self, value: object) -> None:
        facts = {key: item for key, item in _map(value).items() if key != "id"}
        rule = self.table.judge(self.id, facts)
        self.table.remember()
        self.receipt = await self._keep(PUT, facts)
        self.table.put(self.id, rule, facts)

    async def patch(self, value: object) -> None:
        """Change parts of a rule."""
        async with self.table.changing:
            known = self.table.rows.get(self.id)
            if known is None:
                raise _nothing(self.id)
            await self._put(merge_patch(dict(known), value))

    async def delete(self) -> None:
        """Delete a rule."""
        async with self.table.changing:
            if self.id not in self.table.rows:
                raise _nothing(self.id)
            self.receipt = await self._keep(DELETE, None)
            self.table.remove(self.id)

    async def post(self, value: object) -> object:  # noqa: ARG002 - whatever it is
        """Refuse: a rule needs a meaningful name."""
        raise Error(Code.NOT_ALLOWED, f"PUT a rule at its name, such as /{PATH}/guests")

    async def publish(self, message: object) -> object:  # noqa: ARG002 - whatever it is
        """Refuse: rules have no messages."""
        raise Error(Code.NOT_ALLOWED, "a rule is written with retain set, or by PUT")

    async def _keep(self, kind: str, value: object) -> Receipt:
        kernel = self.kernel
        sent = self.sent.changed(client=self.caller.user) if self.sent is not None else None
        return await kernel.write_value(self.topic, kind, value, SERVER, sent, self.condition)


def rule_rows(of_table: RuleTable) -> type[RowsOfRules]:
    """Return the resource class that reads and changes the rules."""

    class RuleRows(RowsOfRules):
        table = of_table

    return RuleRows


def _map(value: object) -> Facts:
    if not isinstance(value, Mapping):
        raise Error(Code.INVALID, 'a rule is a map, such as {"filter": "home/#", "actions": []}')
    return value


def _nothing(name: str) -> Error:
    return Error(Code.NOT_FOUND, f"there is no rule {name!r}")
