"""Clauses of ``@auth``: which rules apply to whom (L7)."""

import pytest

from rowcast.core.clauses import Clause, read_rules, rules_reading, write_rule
from rowcast.core.conditions import EVERYTHING, NOTHING, Condition, Group, Operator

OWN = Condition(("owner",), Operator.EQ, "ann")
OPEN = Condition(("open",), Operator.EQ, True)
VET = frozenset({"vet"})
NOBODY = frozenset()


def rules(clauses, roles):
    return [rule for rule, _ in read_rules(clauses, roles)]


@pytest.mark.parametrize(
    ("clauses", "roles", "reads", "writes"),
    [
        ((), NOBODY, [], NOTHING),
        ((Clause(VET),), VET, [EVERYTHING], EVERYTHING),
        ((Clause(VET),), NOBODY, [], NOTHING),
        ((Clause(read=OWN),), NOBODY, [OWN], OWN),
        ((Clause(write=OWN),), NOBODY, [], OWN),
        ((Clause(read=OPEN, write=OWN),), NOBODY, [OPEN], OWN),
        ((Clause(read=OPEN), Clause(write=OWN)), NOBODY, [OPEN], OWN),
        ((Clause(read=OPEN), Clause(read=OWN)), NOBODY, [OPEN, OWN], Group((OPEN, OWN), False)),
        ((Clause(VET), Clause(read=OWN)), VET, [EVERYTHING, OWN], EVERYTHING),
        ((Clause(VET, masks=(("phone", "last4"),)),), VET, [EVERYTHING], EVERYTHING),
    ],
)
def test_rules_of_a_caller(clauses, roles, reads, writes):
    """Where no clause says who may write, who may read may."""
    assert reads == rules(clauses, roles)
    assert writes == write_rule(clauses, roles)


@pytest.mark.parametrize(
    ("clause", "bare", "looks", "reading"),
    [
        (Clause(VET), True, False, True),
        (Clause(read=OWN), False, True, True),
        (Clause(write=OWN), False, True, False),
        (Clause(read=EVERYTHING), False, False, True),
        (Clause(read=NOTHING, write=EVERYTHING), False, False, True),
    ],
)
def test_what_a_clause_says(clause, bare, looks, reading):
    assert (bare, looks, reading) == (clause.bare, clause.looks, rules_reading((clause,)))
