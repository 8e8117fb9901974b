"""Rows of ``$SYS/policy``: explanations of decisions, for operators (M9).

    GET $SYS/policy/<user>/<action>/<topic>
    GET $SYS/policy/<user>/<action>?filter=<filter>

Only administrators may read it, because an explanation reveals that a record exists. The decision
is that of every door.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from rowcast.core.callers import Caller
from rowcast.core.conditions import Condition
from rowcast.core.errors import Code, Error
from rowcast.core.evaluation import project
from rowcast.core.queries import Query
from rowcast.core.suggestions import did_you_mean
from rowcast.core.topics import TopicFilter, is_pattern
from rowcast.features.rights.decision import Decision
from rowcast.features.rights.rights import Rights
from rowcast.routes.resource import Resource

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel

PATH: Final = "$SYS/policy"


ACTIONS: Final = ("read", "subscribe", "write", "publish", "administer")

Person = Callable[[str], Awaitable[Caller | None]]
"""Returns the caller of a user's name; None if there is no such user."""


def policy_rows(rights: Rights, person: Person) -> type[Resource]:
    """Return the resource class that explains decisions."""

    class PolicyRows(Resource):
        """One row for each question."""

        path = PATH
        kernel: "Kernel"

        async def get(self, query: Query | None = None) -> object:
            """Return whether a user may do something, and the cause."""
            rights.check_administer(self.topic, self.caller)
            user, action, topic = _asked(self.id, _filter_in(query))
            asked = await person(user)
            if asked is None:
                raise Error(Code.NOT_FOUND, f"there is no user {user!r}")
            decision = await explain(self.kernel, rights, asked, action, topic)
            row = {
                "user": user,
                "roles": sorted(asked.roles),
                "action": action,
                "topic": topic,
                "allowed": decision.allowed,
                "because": decision.because,
            }
            return project(query.select if query else None, row, self.id)

    return PolicyRows


async def explain(
    kernel: "Kernel", rights: Rights, caller: Caller, action: str, topic: str
) -> Decision:
    """Decide on a topic, and on its current record."""
    if is_pattern(topic):
        if action not in {"read", "subscribe"}:
            raise Error(Code.INVALID, f"filters are read or subscribed to; {action} takes a topic")
        TopicFilter(topic)
        return rights.decide(caller, action, topic)
    decision = rights.decide(caller, action, topic)
    route = kernel.registry.route(topic)
    row_policy = rights.of_table(caller, route.table)
    if not decision.allowed or row_policy is None or not route.record_id or action == "administer":
        return decision
    record = await kernel.reader.get(route.table, topic)
    explained = row_policy.explain(action in {"write", "publish"}, record)
    return decision if explained is None else rights.and_list(explained, caller, action, topic)


def _filter_in(query: Query | None) -> str:
    """Return the filter of a question, which cannot be part of a path."""
    where = query.where if query is not None else None
    if isinstance(where, Condition) and where.path == ("filter",) and isinstance(where.value, str):
        return where.value
    return ""


def _asked(text: str, topics: str) -> tuple[str, str, str]:
    user, _, rest = text.partition("/")
    action, _, topic = rest.partition("/")
    topic = topic or topics
    if not user or not topic:
        raise Error(
            Code.NOT_FOUND,
            f"ask at /{PATH}/<user>/<action>/<topic>, or .../<action>?filter=home/%23",
        )
    if action not in ACTIONS:
        known = ", ".join(ACTIONS)
        raise Error(
            Code.INVALID,
            f"there is no action {action!r}{did_you_mean(action, ACTIONS)}; known are {known}",
        )
    return user, action, topic
