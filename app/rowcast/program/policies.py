"""Who may do what, wired: the rules that are rows, and what explains them.

Rules must count before the first caller is let in, so they are read before any door opens.
"""

from rowcast.features.rights import explain, rule_rows
from rowcast.features.rights.explain import Person
from rowcast.kernel.kernel import Kernel


def set_policy(kernel: Kernel, person: Person) -> None:
    """Put the rows at their paths, and have the rules of an earlier run count again."""
    table = rule_rows.RuleTable(kernel)
    kernel.rows(rule_rows.PATH, rule_rows.rule_rows(table))
    kernel.rows(explain.PATH, explain.policy_rows(person))
    kernel.facts(rule_rows.OWNER, table.load)
