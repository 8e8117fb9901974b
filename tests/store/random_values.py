"""Random values, conditions and orders for tests that compare stores with their reference."""

from datetime import UTC, datetime
from decimal import Decimal

from hypothesis import strategies as st
from store_cases import DOG

from rowcast.core.conditions import Condition, Group, Operator
from rowcast.core.queries import Sort

TIMES = [datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, 0, 0, 0, 1, tzinfo=UTC)]
WORDS = st.sampled_from(
    ["", "a", "ab", "b", "B", "é", "\U0001f415", "\uffff", "a\0b", "%", "\ud7ff"]
)
FLOATS = st.sampled_from([0.0, -0.0, 1.0, 1.5, -2.5, float("nan"), float("inf"), 1e300, 0.1])
INTEGERS = st.sampled_from([0, 1, -1, 2, 2**31 - 1, 2**53 + 1, -(2**63), 2**63 - 1])
SMALL = st.sampled_from([0, 1, -1, 2, 2**31 - 1])
DECIMALS = st.sampled_from(
    [Decimal(text) for text in ("0", "1", "1.0", "0.1", "1.5", "-7", "1E+400")]
)
BLOBS = st.sampled_from([b"", b"\x00", b"\xff", b"a"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    INTEGERS,
    FLOATS,
    WORDS,
    BLOBS,
    DECIMALS,
    st.sampled_from(TIMES),
)
NAMES = st.sampled_from(["name", "x", "", "$date", "$map", 'q"uote', "back\\slash", "é", "a.b"])
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)

DOG_VALUES = st.fixed_dictionaries(
    {},
    optional={
        "name": WORDS | st.none(),
        "age": SMALL | st.none(),
        "steps": INTEGERS,
        "weight": FLOATS | st.none() | st.just(3),
        "price": DECIMALS | st.none(),
        "good": st.booleans(),
        "born": st.sampled_from(TIMES),
        "photo": BLOBS,
        "extra": ANYTHING,
        "tags": st.lists(WORDS, max_size=2),
        "home": st.dictionaries(st.sampled_from(["city", "x"]), SCALARS, max_size=2),
        "x": ANYTHING,
        "$date": ANYTHING,
        'q"uote': SCALARS,
        "": SCALARS,
    },
)
PATHS = st.sampled_from(
    [
        *((item.name,) for item in DOG.attributes),
        *((name,) for name in ("x", "$date", "$map", 'q"uote', "", "n", "$id")),
        *(("home", "city"), ("x", "name"), ("extra", "x"), ("name", "x")),
    ]
)
CONDITIONS = st.one_of(
    st.builds(
        Condition, PATHS, st.sampled_from([op for op in Operator if op is not Operator.IN]), SCALARS
    ),
    st.builds(Condition, PATHS, st.sampled_from([Operator.EQ, Operator.NE]), ANYTHING),
    st.builds(Condition, PATHS, st.just(Operator.IN), st.lists(SCALARS, max_size=3).map(tuple)),
)
WHERE = st.none() | st.recursive(
    CONDITIONS,
    lambda inner: st.builds(Group, st.lists(inner, max_size=3).map(tuple), st.booleans()),
    max_leaves=4,
)
SORTS = st.lists(st.builds(Sort, PATHS, st.booleans()), max_size=3).map(tuple)
