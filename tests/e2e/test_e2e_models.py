"""``rowcast.models``: SQLModel classes of the tables, read beside a running server."""

import contextlib
import re
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from sqlalchemy.exc import OperationalError

from house import ROOT
from rowcast.core.callers import ALL, Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PUT, Event
from rowcast.models import open_models, select
from serving import application

ANN = Caller("ann", ALL, "http")
SCHEMA = """
type Dog @table @export {
  id: ID @primaryKey
  name: String
  breed: String @indexed
  weight: Decimal
  age: Int
  born: Date
  tricks: [String]
  copy: Int
  model_year: Int
  class: String
}
type Reading @table(database: "lab") @export { n: Int @primaryKey value: Float }
"""
DOGS = {
    "1": b'{"name":"Rex","breed":"collie","weight":"12.50","age":4,"born":"2020-05-01T00:00:00Z"}',
    "2": b'{"name":"Ada","breed":"poodle","tricks":["sit"],"copy":2,"model_year":3,"class":"x"}',
    "3": b'{"name":"Bo","breed":"collie","fast":true}',
}
READER = """
from rowcast import Resource
from rowcast.models import Dog, read_session, select


class Collies(Resource):
    async def get(self, query=None):
        with read_session() as session:
            return session.exec(select(Dog.name).where(Dog.breed == "collie")).all()
"""


@contextlib.asynccontextmanager
async def dogs(folder):
    resources = folder / "resources"
    resources.mkdir()
    (resources / "collies.py").write_text(READER)
    async with application(folder, SCHEMA, {"resources": resources}) as app:
        reading = next(table for table in app.schema.tables if table.own_name == "Reading")
        values = {f"Dog/{name}": value for name, value in DOGS.items()}
        for topic, value in (values | {reading.topic("7"): b'{"value":1.5}'}).items():
            await app.kernel.write(Event(topic, PUT, value, "application/json", 1, True), ANN)
        yield app, open_models(folder / "schema.graphql", folder / "data")


async def test_rows_are_objects_with_values(tmp_path):
    async with dogs(tmp_path) as (_, models):
        with models.read_session() as session:
            rex, ada, bo = session.exec(select(models.Dog).order_by(models.Dog.id)).all()
        assert ("1", "Rex", "collie", None) == (rex.id, rex.name, rex.breed, rex.tricks)
        assert (Decimal("12.50"), datetime(2020, 5, 1, tzinfo=UTC)) == (rex.weight, rex.born)
        assert ["sit"] == ada.tricks
        assert (2, 3, "x") == (ada.copy_, ada.model_year, ada.class_)
        assert rex.seq_ < ada.seq_ < bo.seq_
        assert '{"fast":true}' == bo.extra_


async def test_conditions_are_values(tmp_path):
    async with dogs(tmp_path) as (_, models):
        dog = models.Dog
        with models.read_session() as session:
            for condition, names in (
                (dog.breed == "collie", ["Rex", "Bo"]),
                (dog.born < datetime(2021, 1, 1, tzinfo=UTC), ["Rex"]),
                (dog.weight == Decimal("12.50"), ["Rex"]),
                (dog.seq_ > 0, ["Rex", "Ada", "Bo"]),
            ):
                assert names == session.exec(select(dog.name).where(condition)).all()
            reading = session.exec(select(models.lab__Reading)).one()
        assert (7, 1.5) == (reading.n, reading.value)


async def test_a_session_sees_one_committed_state_and_the_next_one_what_came_since(tmp_path):
    async with dogs(tmp_path) as (app, models):
        count = select(models.Dog.id)
        with models.read_session() as session:
            assert 3 == len(session.exec(count).all())
            await app.kernel.write(Event("Dog/1", DELETE, b"", None, 1, True), ANN)
            assert 3 == len(session.exec(count).all())
        with models.read_session() as session:
            assert 2 == len(session.exec(count).all())


async def test_a_session_cannot_write(tmp_path):
    async with dogs(tmp_path) as (_, models):
        with models.read_session() as session:
            session.add(models.Dog(id="9", name="Eve"))
            with pytest.raises(OperationalError, match="readonly"):
                session.commit()


async def test_resources_read_the_database_of_their_server(tmp_path):
    async with dogs(tmp_path) as (app, _):
        entry = app.registry.route("Collies").entry
        assert ["Rex", "Bo"] == await entry.resource.get(object.__new__(entry.resource))


async def test_a_table_that_is_not_declared_is_told_with_those_that_are(tmp_path):
    (tmp_path / "schema.graphql").write_text(SCHEMA)
    models = open_models(tmp_path / "schema.graphql", tmp_path / "data")
    with pytest.raises(AttributeError, match="no table 'Cat'; it declares Dog, lab__Reading"):
        _ = models.Cat
    assert {"Dog", "lab__Reading", "read_session"} == set(dir(models))
    with pytest.raises(Error) as caught, models.read_session():
        pass
    assert Code.NOT_FOUND is caught.value.code


async def test_the_example_of_the_manual_runs(tmp_path, monkeypatch, capsys):
    """In a notebook: the schema and the data of the current directory."""
    async with dogs(tmp_path):
        monkeypatch.chdir(tmp_path)
        manual = (ROOT / "docs" / "python.md").read_text()
        _, _, section = manual.partition("## Reading tables with SQLModel")
        exec(re.search(r"```python\n(.*?)```", section, re.DOTALL)[1], {})
    assert "Rex 4\n" in capsys.readouterr().out
