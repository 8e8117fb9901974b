"""Random tables, conditions, windows and writes, for live queries."""

import json
from urllib.parse import quote

from rowcast.core.events import DELETE, PATCH, PUT, Event
from rowcast.core.tables import Attribute, Table, Type

WORDS = ("", "a", "ab", "abc", "b", "Bonn", "Köln", "a/b+c#d", "x&y=1", "null", "12", "~")
TIMES = ("2026-01-01T00:00:00Z", "2026-01-31T12:00:00Z", "2026-06-01T00:00:00.5Z")
VALUES = {
    Type.INT: lambda chance: chance.randint(-2, 5),
    Type.LONG: lambda chance: chance.choice((-(2**53), 0, 7, 2**53 + 1, 2**60)),
    Type.FLOAT: lambda chance: chance.choice((-1.5, 0.0, 0.5, 1.0, 2.25, 80.0)),
    Type.STRING: lambda chance: chance.choice(WORDS),
    Type.BOOLEAN: lambda chance: chance.random() < 0.5,
    Type.DATE: lambda chance: chance.choice(TIMES),
    Type.DECIMAL: lambda chance: chance.choice(("0.10", "1.5", "-3", "80")),
    Type.ANY: lambda chance: chance.choice((None, True, 1, 1.5, "1", "a", [1], {"a": 1})),
}
OWNERS = ("ann", "ben")
ORDERS = ("=gt=", "=ge=", "=lt=", "=le=", "<", ">", "<=", ">=")


def random_table(chance):
    """Return a table of some attributes, some of them undeclared."""
    kinds = [chance.choice(list(VALUES)) for _ in range(chance.randint(1, 4))]
    attributes = [Attribute("id", Type.ID, primary_key=True)]
    attributes += [Attribute(f"a{number}", kind) for number, kind in enumerate(kinds)]
    path = chance.choice(("T", "deep/er/table"))
    return Table("T", path, tuple(attributes))


def random_conditions(chance, table, depth=0):
    """Return conditions that can be asked of the table, as a URL has them."""
    if depth < 3 and chance.random() < 0.4:
        joint = chance.choice("&|")
        parts = [random_conditions(chance, table, depth + 1) for _ in range(chance.randint(2, 3))]
        inner = joint.join(parts)
        return f"[{inner}]" if depth else inner
    attribute = chance.choice(table.attributes[1:])
    name, kind = attribute.name, attribute.type
    value = VALUES[kind](chance)
    text = quote(json.dumps(value) if not isinstance(value, str) else value, safe="")
    if kind is Type.BOOLEAN:
        return f"{name}{chance.choice(('==', '!='))}{text}"
    if kind is Type.ANY:
        text = chance.choice(("null", "true", "1", "1.5", "a", "string:1"))
        return f"{name}{chance.choice(('==', '!='))}{text}"
    if kind is Type.STRING:
        text = text if text != "null" else "string:null"
        operator = chance.choice(("==", "!=", "=sw=", "=ct=", "=ew=", *ORDERS))
        return f"{name}{operator}{text}"
    if chance.random() < 0.2:
        others = (VALUES[kind](chance) for _ in range(3))
        listed = ",".join(str(other) for other in others)
        return f"{name}=in=({quote(listed, safe=',')})"
    if chance.random() < 0.2:
        other = quote(str(VALUES[kind](chance)), safe="")
        return f"{name}=ge={text}&{name}=lt={other}" if not depth else f"{name}=ge={text}"
    return f"{name}{chance.choice(('==', '!=', *ORDERS))}{text}"


def random_write(chance, table, records=6):
    """Return an event at one of few records."""
    topic = table.topic(str(chance.randrange(records)))
    kind = chance.choices((PUT, PATCH, DELETE), (6, 4, 2))[0]
    value = {}
    for attribute in table.attributes[1:]:
        if chance.random() < 0.7:
            owner = attribute.name == "owner"
            given = chance.choice(OWNERS) if owner else VALUES[attribute.type](chance)
            value[attribute.name] = None if chance.random() < 0.1 else given
    payload = b"" if kind == DELETE else json.dumps(value).encode()
    return Event(topic, kind, payload, None if kind == DELETE else "application/json", 1, True)


# -- windows --------------------------------------------------------------------------------------

SPARE = (0, 0, 0, 16)
"""How many records are known behind a window."""
RECORDS = (6, 20, 40, 60)


def random_window(chance, table):
    """Return an order and a limit, as a URL has them."""
    names = [attribute.name for attribute in table.attributes]
    keys = [chance.choice(("", "%2B", "-")) + chance.choice(names)]
    if chance.random() < 0.3:
        keys.append(chance.choice(("", "-")) + chance.choice(names))
    start = chance.choice((0, 0, 0, 1, 2))
    end = start + chance.choice((0, 1, 1, 2, 3, 5))
    limit = f"limit({start},{end})" if start else f"limit({end})"
    return limit if chance.random() < 0.1 else f"sort({','.join(keys)})&{limit}"


def random_select(chance, table):
    """Return selected attributes, as a URL has them."""
    names = [attribute.name for attribute in table.attributes[1:]]
    return f"select({','.join(['id', *chance.sample(names, chance.randint(1, len(names)))])})"


def random_write_at(chance, table, records, held):
    """Return an event, often at one of the records that a reader of the window holds."""
    event = random_write(chance, table, records)
    if held and chance.random() < 0.5:
        event.topic = chance.choice(sorted(held))
        if chance.random() < 0.5:
            return Event(event.topic, DELETE, b"", None, 1, True)
    return event
