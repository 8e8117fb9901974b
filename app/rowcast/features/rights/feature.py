"""The feature: who may do what (M9, L6, L10, G20).

Grants say it, topic rules, ``@auth`` and the access list of the settings.
"""

from collections.abc import Sequence

from rowcast.core.tables import Table
from rowcast.features.rights import explain, rule_rows
from rowcast.features.rights.access_list import AccessList, AccessRule
from rowcast.features.rights.explain import Person, policy_rows
from rowcast.features.rights.rights import Rights
from rowcast.features.rights.rule_rows import OWNER, RuleTable
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel


class AccessRights(Feature):
    """The rights at one server; ``person`` finds a user whose rights are to be explained."""

    def __init__(self, person: Person, access: Sequence[AccessRule] = ()) -> None:
        self._person = person
        self._listed = tuple(access)
        self._access = AccessList(access)

    def install(self, kernel: Kernel) -> None:
        """Decide from now on; rules of an earlier run are read before any port opens."""
        tables = [shape.table for shape in kernel.registry.shapes.values()]
        rights = Rights(tables, kernel.transcoder, kernel.reader, kernel.listeners, self._access)

        def changed() -> None:
            for table in rights.policy.guarded:  # what a change means depends on the record before
                kernel.registry.shapes[table.name].guard()
                kernel.reader.remember_before(table)
            kernel.steps.may_announce = rights.may_publish if rights.active else None
            kernel.steps.changed()
            kernel.reauthorization.altered()
            kernel.reauthorization.changed()

        rights.changed = changed
        kernel.rights = rights
        kernel.steps.add("access", rights.step)
        kernel.steps.add("rows", rights.row_step)
        kernel.steps.may_announce = rights.may_publish if rights.active else None
        rules = self.rules = RuleTable(kernel, rights)
        rules.changed = kernel.rows(rule_rows.PATH, rule_rows.rule_rows(rules))
        declared = {table.name: _declared(table) for table in tables if table.restricted}
        rights.in_force = lambda: (rules.rows, self._listed, declared)
        kernel.reauthorization.rights_in_force.append(rights.in_force)
        kernel.rows(explain.PATH, policy_rows(rights, self._person))
        kernel.facts(OWNER, rules.load)


def _declared(table: Table) -> list[tuple[object, ...]]:
    """Return what ``@auth`` says of a table's records, and of their attributes."""
    clauses = [("", item) for item in table.auth]
    clauses += [(field.name, item) for field in table.attributes for item in field.auth]
    return [(name, item.roles, item.masks, item.text) for name, item in clauses]
