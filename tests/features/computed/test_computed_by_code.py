"""Attributes that functions of ``resources/`` compute (A9)."""

import pytest

from asgi import Asgi
from build import Server
from rowcast import computed
from rowcast.core.errors import Error
from rowcast.features.computed.computation import Computation
from rowcast.features.computed.feature import ComputedByCode
from rowcast.features.hooks.hooks import COLLECTING, Hooks
from rowcast.features.undeclared_topics.topic_tables import TopicSettings
from rowcast.program.resource_loader import load_resources
from rowcast.schema import parse_schema

SCHEMA = """
type Order @table @export {
  id: ID @primaryKey
  quantity: Int
  secret: String @hidden
  size: Int @computed
  words: [String] @computed
  twice: Int @computed(from: "size + size")
}
"""
CODE = """
from rowcast import Resource, computed

class Order(Resource):
    @computed
    def size(order):
        return order["quantity"] * 10

@computed("Order.words")
def words(order):
    assert "secret" not in order
    order["id"] = "changed"
    return sorted(order)
"""


@pytest.fixture
async def rest(tmp_path):
    (tmp_path / "orders.py").write_text(CODE)
    hooks = Hooks()
    resources = load_resources(tmp_path, hooks)
    tables = parse_schema(SCHEMA).tables
    server = Server(tables, topics=TopicSettings(), resources=resources)
    ComputedByCode(tables, hooks.collected(Computation)).install(server.kernel)
    yield Asgi(server.make_edge(), server.store)
    await server.stop()


async def value(rest, path):
    got = await rest.get(path)
    assert got.status == 200, got.body
    return got.value


async def test_a9_methods_and_functions_compute(rest):
    """A9: also as inputs of expressions, of conditions and of orders; they change no record."""
    for number in (1, 2):
        body = b'{"quantity": %d, "secret": "s"}' % number
        assert (await rest.put(f"/Order/{number}", body)).status == 201
    told = await value(rest, "/Order/2")
    assert (20, 40, ["id", "quantity"]) == (told["size"], told["twice"], told["words"])
    assert "2" == told["id"]
    assert ["2"] == await value(rest, "/Order/?size=gt=10&select(id)")
    assert ["2", "1"] == await value(rest, "/Order/?sort(-twice)&select(id)")


@pytest.mark.parametrize("body", [b"{}", b'{"quantity": 2000000000}'])
async def test_a9_a_failure_is_null_and_is_counted(rest, body, caplog):
    """A9: one that raises, and one whose result is not of the declared type."""
    assert (await rest.put("/Order/1", body)).status == 201
    told = await value(rest, "/Order/1?select(size,twice)")
    assert {"size": None, "twice": None} == told
    assert rest.kernel.figures["computed/failures"]() > 0
    assert "Order.size is null" in caplog.text


async def test_a9_a_record_with_failures_logs_few(rest, caplog):
    await rest.put("/Order/1", b"{}")
    for _ in range(20):
        await rest.get("/Order/?size=gt=1")
    assert rest.kernel.figures["computed/failures"]() >= 20
    assert caplog.text.count("Order.size is null") == 10


class Text(str):
    """What some libraries return: of the type, and of no type that is sent."""

    __slots__ = ()


def ends(_):
    raise SystemExit


UNSENDABLE = {
    "a tuple": lambda _: ("a",),
    "half a character": lambda _: ["\ud800"],
    "a subclass": lambda _: [Text("a")],
    "an exit": ends,
}


@pytest.mark.parametrize("name", UNSENDABLE)
@pytest.mark.parametrize("accept", ["application/json", "application/cbor", "text/csv"])
async def test_a9_what_cannot_be_sent_is_null_and_hides_no_other_record(name, accept):
    """A9: one such record would make every list of its table an error."""
    tables = parse_schema(SCHEMA).tables
    server = Server(tables, topics=TopicSettings())
    words = Computation("Order.words", UNSENDABLE[name])
    ComputedByCode(tables, [Computation("Order.size", len), words]).install(server.kernel)
    rest = Asgi(server.make_edge(), server.store)
    assert (await rest.put("/Order/1", b'{"quantity": 1}')).status == 201
    for path in (
        "/Order/1",
        "/Order/",
        "/Order/?words==null&select(id,words)",
        "/Order/?meta=true",
    ):
        answer = await rest.get(path, accept=accept)
        assert answer.status == 200, answer.body
    assert words.failures >= 3
    await server.stop()


def collected(*functions):
    return [Computation(label, lambda _: None) for label in functions]


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        (("Order.size",), "nothing computes Order.words"),
        (("Order.size", "Order.words", "Order.size"), "Order.size has two functions"),
        (("Order.size", "Order.words", "Order.sise"), 'did you mean "Order.size"'),
        (("Order.size", "Order.words", "Order.twice"), "does not declare with @computed alone"),
    ],
)
def test_a9_functions_are_those_that_the_schema_needs(functions, message):
    with pytest.raises(Error) as caught:
        ComputedByCode(parse_schema(SCHEMA).tables, collected(*functions))
    assert message in caught.value.message


async def _waits(order):
    return order


@pytest.mark.parametrize(
    ("label", "function", "message"),
    [
        ("Order.size", _waits, "is asynchronous"),
        ("size", len, "names the attribute, as in @computed"),
        ("a.b.c", len, "names the attribute, as in @computed"),
    ],
)
def test_a9_wrong_functions_are_refused_where_they_are_registered(label, function, message):
    token = COLLECTING.set(Hooks())
    try:
        with pytest.raises(Error, match=message):
            computed(label)(function)
    finally:
        COLLECTING.reset(token)


def test_a9_a_function_cannot_change_a_list_of_the_record():
    """A9: others may hold the same record."""
    table = parse_schema("type T @table { tags: [String] n: Int @computed }").tables[0]
    formula = table.attribute("n").formula
    formula.bind(lambda record: record["tags"].append("x") or len(record["tags"]), print)
    record = {"tags": ["a"]}
    assert (2, {"tags": ["a"]}) == (formula.of(record), record)
