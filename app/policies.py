"""Who may do what, wired: the rules that are rows, and what explains them.

Rules must count before the first caller is let in, so they are read before any door opens.
"""

from app.auth.users import Users
from app.core.callers import Caller
from app.engine.engine import Engine
from app.engine.rights import explain, rule_rows


async def set_policy(engine: Engine, users: Users | None) -> None:
    """Put the rows at their paths, and have the rules of an earlier run count again."""

    async def person(name: str) -> Caller | None:
        user = await users.find(name) if users is not None else None
        return None if user is None else Caller(user.name, user.grants, "http")

    table = rule_rows.RuleTable(engine)
    engine.registry.add(rule_rows.PATH, rule_rows.rule_rows(table))
    engine.registry.add(explain.PATH, explain.policy_rows(person))
    await table.load()
