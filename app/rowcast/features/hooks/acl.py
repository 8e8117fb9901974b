"""The access list: rules that allow or deny by user, client id, action and topic (G20).

The first matching rule decides; the default is deny. It applies on every door, because it is an
ordinary hook. A filter is allowed by a rule that covers it; a denial within it withholds the denied
part from delivery.

A placeholder is replaced by the caller's name within one level of a topic. A name that is empty, or
contains a wildcard or separator, matches nothing, so no name widens a rule.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from rowcast.core.bounded import BoundedCache, ClearedCache
from rowcast.core.callers import Caller
from rowcast.core.claims import CLIENT, USER
from rowcast.core.conditions import Path
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.core.limits import ACL_ANSWERS_MAX, HOOK_CALLERS_MAX
from rowcast.core.topic_rules import BoundRule, Combining, RulesOf, TopicRule
from rowcast.core.topics import check_filter
from rowcast.features.hooks.hook import Hook
from rowcast.subscriptions.subscribed_filters import SubscribedFilter

Effect = Literal["allow", "deny"]
Action = Literal["publish", "write", "subscribe", "read", "all"]

_ANSWERED: Final[Mapping[str, frozenset[str]]] = {
    "publish": frozenset({"write"}),
    "write": frozenset({"write"}),
    "subscribe": frozenset({"subscribe", "read"}),
    "read": frozenset({"read"}),
    "all": frozenset({"write", "subscribe", "read"}),
}
"""What is asked here, by the actions of a rule that say so: who may subscribe to a topic is given
what is there."""

USERNAME: Final = "${username}"
CLIENT_ID: Final = "${clientid}"
_PLACES: Final = {USERNAME: USER, CLIENT_ID: CLIENT}


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

    def rule(self) -> TopicRule:
        """Return it as the evaluator knows rules."""
        return TopicRule(
            "access list",
            self.topics,
            self.effect == "allow",
            frozenset[str]().union(*(_ANSWERED[action] for action in self.actions)),
            users=self.users,
            clients=self.clients,
            places=_PLACES,
        )


@dataclass(frozen=True, slots=True)
class _Rights:
    """The rules for one caller, with placeholders replaced, and cached decisions."""

    rules: RulesOf
    answers: ClearedCache[tuple[str, str], bool]

    def allow(self, action: str, text: str) -> bool:
        """Return the decision of the first rule that covers a topic or filter."""
        key = action, text
        answer = self.answers.get(key)
        if answer is None:
            rule = self.rules.deciding(action, text.split("/"))
            answer = self.answers.put(key, rule is not None and rule.allows)
        return answer


class AccessList(Hook):
    """Checks the rules before writes, subscriptions and reads."""

    id = "acl"

    def __init__(
        self,
        rules: Sequence[AccessRule],
        callers_max: int = HOOK_CALLERS_MAX,
        answers_max: int = ACL_ANSWERS_MAX,
    ) -> None:
        self._rules = [rule.rule() for rule in rules]
        self._rights: BoundedCache[tuple[str, str], _Rights] = BoundedCache(callers_max)
        self._answers_max = answers_max

    def on_publish(self, caller: Caller, event: Event) -> None:
        """Refuse a write unless a rule allows it."""
        if not self._of(caller).allow("write", event.topic):
            raise _denied(caller, "write", event.topic)

    def on_subscribe(self, caller: Caller, interest: SubscribedFilter) -> None:
        """Refuse a filter unless a rule covers it."""
        if not self._of(caller).allow("subscribe", interest.topics.text):
            raise _denied(caller, "subscribe to", interest.topics.text)

    def can_read(self, caller: Caller, topic: str) -> bool:
        """Withhold topics that no rule allows."""
        return self._of(caller).allow("read", topic)

    def _of(self, caller: Caller) -> _Rights:
        key = caller.user, caller.client_id
        return self._rights.use(key) or self._rights.put(key, self._make(*key))

    def _make(self, user: str, client_id: str) -> _Rights:
        facts: dict[Path, object] = {USER: user, CLIENT: client_id}
        bound = [
            BoundRule(rule, rule.patterns(facts.get))
            for rule in self._rules
            if rule.concerns(user, frozenset(), client_id)
        ]
        return _Rights(RulesOf(bound, Combining.FIRST_MATCH), ClearedCache(self._answers_max))


def _denied(caller: Caller, verb: str, text: str) -> Error:
    return Error(Code.DENIED, f"{caller.user} may not {verb} {text!r}")
