"""Random policies, people and records for tests of rights; ``rights_reference.py`` evaluates them.

The same dice make the same ones, so that a seed names a case.
"""

import random

from rights_reference import FIELDS, OWNERS, ROLES, SITES, Auth, Person, Policy, rule_text


def random_rule(dice, depth=0):
    """A random row rule."""
    roll = dice.random()
    if depth < 2 and roll < 0.3:
        items = [random_rule(dice, depth + 1) for _ in range(2)]
        return dice.choice(("and", "or")), items
    return dice.choice(
        (
            ("eq", "owner", ("user",)),
            ("in", "site", ("claim", "sites")),
            ("eq", "site", dice.choice(SITES)),
            ("le", "level", dice.randrange(4)),
            ("gt", "level", ("claim", "rank")),
            ("ne", "owner", ("claim", "rival")),
            ("ne", "site", dice.choice(SITES)),
            ("has", "team", ("user",)),
            ("has", "team", ("claim", "rival")),
            ("has", "team", dice.choice(OWNERS)),
        )
    )


def random_policy(dice):
    """A random policy of a few clauses and rules."""
    auth = tuple(_clause(dice, fields=True) for _ in range(dice.randrange(3)))
    fields = {
        name: tuple(_clause(dice) for _ in range(1 + dice.randrange(2)))
        for name in ("phone", "salary")
        if dice.random() < 0.5
    }
    rules = {f"r{number}": _topic_rule(dice) for number in range(dice.randrange(3))}
    return Policy(auth, fields, rules)


def random_list(dice):
    """A random access list of a few rules."""
    rules = tuple(_list_rule(dice) for _ in range(1 + dice.randrange(3)))
    rest = {"effect": "allow", "actions": ["all"], "topics": ["#"]}
    return (*rules, rest) if dice.random() < 0.6 else rules


def _list_rule(dice):
    actions = ("read", "write", "publish", "subscribe", "all", "all")
    topics = ("Doc/#", "Doc/1", "Doc/+", "Doc/${username}", "Doc/${clientid}", "#", "Open/#", "+/2")
    rule = {
        "effect": dice.choice(("allow", "deny")),
        "actions": dice.sample(actions, 1 + dice.randrange(2)),
        "topics": dice.sample(topics, 1 + dice.randrange(2)),
    }
    return rule | ({"users": dice.sample(OWNERS, 1)} if dice.random() < 0.3 else {})


def _clause(dice, *, fields=False):
    roles = tuple(sorted(dice.sample(ROLES, 1))) if dice.random() < 0.4 else ()
    read = random_rule(dice) if dice.random() < 0.6 else None
    write = random_rule(dice) if dice.random() < 0.3 else None
    masking = dice.random() < 0.3 and write is None
    mask = ({"phone": "last2"} if fields else dice.choice(("last4", "null"))) if masking else None
    if not roles and read is None and write is None and mask is None:
        read = random_rule(dice)
    return Auth(roles, read, write, mask)


def _topic_rule(dice):
    if dice.random() < 0.4:
        return _record_rule(dice)
    return {
        "filter": dice.choice(("Doc/#", "Doc/1", "Doc/+", "Doc/${username}", "#", "Open/#")),
        "effect": dice.choice(("allow", "deny", "deny")),
        "actions": dice.sample(("read", "write", "all", "subscribe"), 1),
        "roles": dice.sample(ROLES, 1) if dice.random() < 0.7 else [],
        "users": dice.sample(OWNERS, 1) if dice.random() < 0.3 else [],
    }


def _record_rule(dice):
    """A rule that allows some records of the table, or parts of them."""
    rule = {
        "filter": "Doc/#",
        "effect": "allow",
        "actions": dice.choice((["read"], ["read", "write"], ["write"], ["all"])),
        "roles": dice.sample(ROLES, 1) if dice.random() < 0.6 else [],
        "users": [],
    }
    parts = dice.choice(("where", "where", "mask", "where mask", "attributes"))
    if "where" in parts:
        rule["where"] = random_rule(dice)
    if "mask" in parts and rule["actions"] != ["write"]:
        rule["mask"] = {"phone": dice.choice(("last4", "last2", "null"))}
    if parts == "attributes":
        rule["attributes"] = dice.sample(FIELDS, 4)
    return rule


def as_row(rule):
    """A rule as it is written: its condition as text."""
    return rule | {"where": rule_text(rule["where"])} if "where" in rule else rule


def random_person(dice, name=None):
    """A random user."""
    claims = {}
    if dice.random() < 0.7:
        claims["sites"] = dice.sample(SITES, dice.randrange(3))
    if dice.random() < 0.7:
        claims["rank"] = dice.randrange(4)
    if dice.random() < 0.5:
        claims["rival"] = dice.choice(OWNERS)
    roles = frozenset(dice.sample(ROLES, dice.choice((0, 1, 1, 2))))
    if dice.random() < 0.05:
        roles |= {"admin"}
    return Person(
        name or dice.choice(OWNERS), roles, claims, dice.random() < 0.9, dice.random() < 0.9
    )


def random_value(dice):
    """A random record of Doc, without its id."""
    value = {"owner": dice.choice(OWNERS), "site": dice.choice(SITES), "level": dice.randrange(5)}
    value |= {"phone": str(dice.randrange(10**8)), "salary": dice.randrange(100)}
    value["team"] = dice.sample(OWNERS, dice.randrange(3))
    for name in FIELDS:
        if dice.random() < 0.15:
            del value[name]
    return value


def dice_of(seed):
    """Dice that fall the same way for the same seed."""
    return random.Random(seed)
