"""The application a good developer would write by hand: FastAPI, SQLModel and a SQLite file.

Synchronous path functions, a session for each request and a durable commit, as the tutorials of
FastAPI and SQLModel teach it; WAL and synchronous=FULL, so that an acknowledged PUT is on the disk.
The pool holds a connection for each of the 64 clients: with SQLAlchemy's default of 15, requests
that wait for a connection can take every worker thread, and none is left to give one back.
"""

import os
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Response
from sqlalchemy import event
from sqlmodel import Field, Session, SQLModel, create_engine

engine = create_engine(
    f"sqlite:///{os.environ['BENCH_DATABASE']}",
    pool_size=64,
    connect_args={"check_same_thread": False},
)


@event.listens_for(engine, "connect")
def set_pragmas(connection, _record) -> None:
    """Make each connection durable and let readers go on beside the writer."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA busy_timeout=10000")


class SensorIn(SQLModel):
    """A reading as it comes in."""

    v: float | None = None
    t: int | None = None
    p: str | None = None


class Sensor(SensorIn, table=True):
    """A reading as it is kept."""

    id: str = Field(primary_key=True)


@asynccontextmanager
async def lifespan(_app: FastAPI):
    """Make the tables before the first request."""
    SQLModel.metadata.create_all(engine)
    yield


def open_session() -> Iterator[Session]:
    """Give each request a session of its own."""
    with Session(engine) as session:
        yield session


app = FastAPI(lifespan=lifespan)
SessionDep = Annotated[Session, Depends(open_session)]


@app.get("/Sensor/{sensor_id}")
def get_sensor(sensor_id: str, session: SessionDep) -> Sensor:
    """Return one record."""
    sensor = session.get(Sensor, sensor_id)
    if sensor is None:
        raise HTTPException(status_code=404, detail="Sensor not found")
    return sensor


@app.put("/Sensor/{sensor_id}", status_code=204)
def put_sensor(sensor_id: str, reading: SensorIn, session: SessionDep) -> Response:
    """Create or replace one record; it is on the disk before the answer."""
    session.merge(Sensor(id=sensor_id, **reading.model_dump()))
    session.commit()
    return Response(status_code=204)
