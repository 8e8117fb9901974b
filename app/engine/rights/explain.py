"""Rows of ``$SYS/policy``: which rule decides, for an operator who wonders (M9).

    GET $SYS/policy/<user>/<action>/<topic>

Only administrators ask: to say why somebody may not see a record is to say that there is one.
Nothing is decided here; the answer is what the same question gets at any door.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from app.core.callers import Caller
from app.core.errors import Code, Error
from app.core.evaluation import project
from app.core.queries import Query
from app.core.suggestions import did_you_mean
from app.engine.resource import Resource
from app.engine.rights.decision import Decision

if TYPE_CHECKING:
    from app.engine.engine import Engine

PATH: Final = "$SYS/policy"
ACTIONS: Final = ("read", "subscribe", "write", "publish", "administer")

Person = Callable[[str], Awaitable[Caller | None]]
"""Returns a user as a caller, None if there is none of that name."""


def policy_rows(person: Person) -> type[Resource]:
    """Return the resource class that explains decisions."""

    class PolicyRows(Resource):
        """An answer for each question."""

        path = PATH

        async def get(self, query: Query | None = None) -> object:
            """Say whether a user may do something, and what decides it."""
            self.engine.rights.check_administer(self.topic, self.caller)
            user, action, topic = _asked(self.id)
            asked = await person(user)
            if asked is None:
                raise Error(Code.NOT_FOUND, f"there is no user {user!r}")
            decision = await explain(self.engine, asked, action, topic)
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


async def explain(engine: "Engine", caller: Caller, action: str, topic: str) -> Decision:
    """Answer a question about a topic, and about the record that is there now."""
    rights = engine.rights
    decision = rights.decide(caller, action, topic)
    route = engine.registry.route(topic)
    sight = rights.of_table(caller, route.table)
    if not decision.allowed or sight is None or not route.record_id or action == "administer":
        return decision
    record = await engine.reader.get(route.table, topic)
    return sight.explain(action in {"write", "publish"}, record) or decision


def _asked(text: str) -> tuple[str, str, str]:
    user, _, rest = text.partition("/")
    action, _, topic = rest.partition("/")
    if not user or not topic:
        raise Error(Code.NOT_FOUND, f"ask at /{PATH}/<user>/<action>/<topic>")
    if action not in ACTIONS:
        known = ", ".join(ACTIONS)
        raise Error(
            Code.INVALID,
            f"there is no action {action!r}{did_you_mean(action, ACTIONS)}; known are {known}",
        )
    return user, action, topic
