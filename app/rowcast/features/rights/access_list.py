"""The access list of the settings: rules that allow or deny by user, client id, action and topic.

The first rule that covers a topic or filter decides; the default is deny (G20). It is asked beside
the rest of the policy, and both must allow: a row of ``$SYS/rules`` or the role ``admin`` opens
nothing that the list denies. Without a list, only the rest decides.

A filter is allowed by a rule that covers it; a denial within it withholds the denied part from
delivery. A placeholder is replaced by the caller's name within one level of a topic. A name that is
empty, or contains a wildcard or separator, matches nothing, so no name widens a rule.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from rowcast.core.callers import Caller
from rowcast.core.claims import CLIENT, USER
from rowcast.core.conditions import Path
from rowcast.core.errors import Code, Error
from rowcast.core.topic_rules import BoundRule, Combining, RulesOf, TopicRule
from rowcast.core.topics import check_filter
from rowcast.features.rights.decision import Decision

Effect = Literal["allow", "deny"]
Action = Literal["publish", "write", "subscribe", "read", "all"]

_ANSWERED: Final[Mapping[str, frozenset[str]]] = {
    "publish": frozenset({"write", "publish"}),
    "write": frozenset({"write", "publish"}),
    "subscribe": frozenset({"subscribe", "read"}),
    "read": frozenset({"read"}),
    "all": frozenset({"write", "publish", "subscribe", "read"}),
}
"""What is asked, by the actions of a rule that answer it: who may subscribe to a topic is given
what is there. To administer is no action of the list."""

USERNAME: Final = "${username}"
CLIENT_ID: Final = "${clientid}"
_PLACES: Final = {USERNAME: USER, CLIENT_ID: CLIENT}

NONE_ALLOWS: Final = Decision(False, "no rule of the access list (hooks.acl) allows it")


@dataclass(frozen=True, slots=True)
class AccessRule:
    """One rule; empty ``users`` or ``clients`` mean anyone. Raises INVALID for an illegal topic."""

    effect: Effect
    actions: frozenset[str]
    topics: tuple[str, ...]
    users: frozenset[str] = frozenset()
    clients: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for topic in self.topics:
            if "${" in topic.replace(USERNAME, "").replace(CLIENT_ID, ""):
                raise Error(
                    Code.INVALID,
                    f"{topic!r} has an unknown placeholder; known are {USERNAME} and {CLIENT_ID}",
                )
            check_filter(topic.replace(USERNAME, "x").replace(CLIENT_ID, "x"))

    def rule(self, number: int) -> TopicRule:
        """Return it as the evaluator knows rules; its name is that of its setting."""
        text = "".join(self.topics)
        return TopicRule(
            f"hooks.acl.{number}",
            self.topics,
            self.effect == "allow",
            frozenset[str]().union(*(_ANSWERED[action] for action in self.actions)),
            users=self.users,
            clients=self.clients,
            places={place: path for place, path in _PLACES.items() if place in text},
        )


class AccessList:
    """The rules of one server; false if there are none."""

    def __init__(self, rules: Iterable[AccessRule] = ()) -> None:
        self._rules: Sequence[TopicRule] = [rule.rule(place) for place, rule in enumerate(rules)]
        places = {path for rule in self._rules for path in rule.places.values()}
        self._names_users = USER in places
        self._names_clients = CLIENT in places
        self._users = frozenset[str]().union(*(rule.users for rule in self._rules))
        self._clients = frozenset[str]().union(*(rule.clients for rule in self._rules))

    def __bool__(self) -> bool:
        return bool(self._rules)

    def kind(self, caller: Caller) -> tuple[str | None, str | None]:
        """Return what distinguishes a caller in the list: its name and client id, or None."""
        by_user = self._names_users or caller.user in self._users
        by_client = self._names_clients or caller.client_id in self._clients
        return caller.user if by_user else None, caller.client_id if by_client else None

    def of(self, caller: Caller) -> "ListedRights | None":
        """Return the rules for one caller; None if there is no list."""
        if not self._rules:
            return None
        facts: dict[Path, object] = {USER: caller.user, CLIENT: caller.client_id}
        bound = [
            BoundRule(rule, rule.patterns(facts.get))
            for rule in self._rules
            if rule.concerns(caller.user, frozenset(), caller.client_id)
        ]
        return ListedRights(RulesOf(bound, Combining.FIRST_MATCH))


class ListedRights:
    """What the list allows to one caller."""

    def __init__(self, rules: RulesOf) -> None:
        self._rules = rules

    def decide(self, action: str, levels: Sequence[str]) -> Decision | None:
        """Answer a question about the whole of a topic or filter; None: it is for others."""
        if action == "administer":
            return None
        rule = self._rules.deciding(action, levels)
        if rule is None:
            return NONE_ALLOWS
        words = "allows" if rule.allows else "denies"
        return Decision(rule.allows, f"the access list's rule {rule.name!r} {words} it")

    def opens(self, wanted: Sequence[str]) -> bool:
        """Whether one rule lets the caller read all that a filter selects."""
        for item in self._rules.answering("read"):
            if item.covers(wanted):
                return item.rule.allows
            if item.overlaps(wanted):
                return False
        return False
