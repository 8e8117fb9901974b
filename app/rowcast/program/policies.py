"""Who may do what, wired: the rules that are rows, and what explains them.

Rules must count before the first caller is let in, so they are read before any door opens.
"""

from collections.abc import Sequence

from rowcast.features.rights import explain, rule_rows
from rowcast.features.rights.explain import Person
from rowcast.kernel.kernel import Engine


async def set_policy(engine: Engine, person: Person, facts: Sequence[object]) -> None:
    """Put the rows at their paths, and have the rules of an earlier run count again."""
    table = rule_rows.RuleTable(engine)
    engine.registry.add(rule_rows.PATH, rule_rows.rule_rows(table))
    engine.registry.add(explain.PATH, explain.policy_rows(person))
    await table.load(facts)
