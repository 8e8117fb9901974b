"""The access list: rules that allow or deny by user, client id, action and topic (G20).

The first rule that fits decides; what no rule names is denied. It is asked at every door, because
it is a hook like any other. A filter is allowed by a rule that selects all that the filter does; a
denial within it keeps the denied part from being delivered.

A placeholder stands for the caller's own name within one level of a topic. A name that is empty, or
holds a sign that means something in filters, selects nothing there, so no name widens a rule.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from rowcast.core.bounded import BoundedCache, ClearedCache
from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.core.limits import ACL_ANSWERS_MAX, HOOK_CALLERS_MAX
from rowcast.core.patterns import filled
from rowcast.core.topics import Levels, check_filter, covers
from rowcast.features.hooks.hook import Hook
from rowcast.subscriptions.subscribed_filters import SubscribedFilter

Effect = Literal["allow", "deny"]
Action = Literal["publish", "write", "subscribe", "read", "all"]

_WRITES: Final = frozenset({"publish", "write", "all"})
_WATCHES: Final = frozenset({"subscribe", "all"})
_READS: Final = frozenset({"read", "subscribe", "all"})
"""Who may subscribe to a topic is given what is there."""

USERNAME: Final = "${username}"
CLIENT_ID: Final = "${clientid}"


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

    def concerns(self, user: str, client_id: str) -> bool:
        """Tell whether it is about a caller."""
        return (not self.users or user in self.users) and (
            not self.clients or client_id in self.clients
        )


@dataclass(frozen=True, slots=True)
class _Rights:
    """The rules that are about one caller, with its own names in them, and what they answered."""

    rules: Sequence[tuple[bool, frozenset[str], Sequence[Levels]]]
    answers: ClearedCache[tuple[frozenset[str], str], bool]

    def allow(self, actions: frozenset[str], text: str) -> bool:
        """Return what the first rule says that selects the whole of a topic or filter."""
        key = actions, text
        answer = self.answers.get(key)
        if answer is None:
            answer = self.answers.put(key, self._decide(actions, tuple(text.split("/"))))
        return answer

    def _decide(self, actions: frozenset[str], wanted: Sequence[str]) -> bool:
        for allows, named, patterns in self.rules:
            if actions & named and any(covers(pattern, wanted) for pattern in patterns):
                return allows
        return False


class AccessList(Hook):
    """Asks the rules before anything is written, watched or read."""

    id = "acl"

    def __init__(
        self,
        rules: Sequence[AccessRule],
        callers_max: int = HOOK_CALLERS_MAX,
        answers_max: int = ACL_ANSWERS_MAX,
    ) -> None:
        self._rules = tuple(rules)
        self._rights: BoundedCache[tuple[str, str], _Rights] = BoundedCache(callers_max)
        self._answers_max = answers_max

    def on_publish(self, caller: Caller, event: Event) -> None:
        """Refuse a write that no rule allows."""
        if not self._of(caller).allow(_WRITES, event.topic):
            raise _denied(caller, "write", event.topic)

    def on_subscribe(self, caller: Caller, interest: SubscribedFilter) -> None:
        """Refuse a filter of which no rule allows the whole."""
        if not self._of(caller).allow(_WATCHES, interest.topics.text):
            raise _denied(caller, "subscribe to", interest.topics.text)

    def can_read(self, caller: Caller, topic: str) -> bool:
        """Keep from a caller what no rule lets it have."""
        return self._of(caller).allow(_READS, topic)

    def _of(self, caller: Caller) -> _Rights:
        key = caller.user, caller.client_id
        return self._rights.use(key) or self._rights.put(key, self._make(*key))

    def _make(self, user: str, client_id: str) -> _Rights:
        names = {USERNAME: user, CLIENT_ID: client_id}
        return _Rights(
            [
                (
                    rule.effect == "allow",
                    rule.actions,
                    [filled(topic, names) for topic in rule.topics],
                )
                for rule in self._rules
                if rule.concerns(user, client_id)
            ],
            ClearedCache(self._answers_max),
        )


def _denied(caller: Caller, verb: str, text: str) -> Error:
    return Error(Code.DENIED, f"{caller.user} may not {verb} {text!r}")
