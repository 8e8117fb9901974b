"""The command ``rowcast``: starts and checks a server, and reads, writes and watches one.

Everything but ``serve`` and ``check`` goes through the server's public REST and SSE, like any other
client. What fails is told in one sentence on standard error, with exit code 1.
"""

import gc
import json
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Final

import typer
from httpx import Response

from app import __version__
from app.codecs.registry import CBOR, CODECS, JSON, MSGPACK, RAW
from app.commands.backups import backup, restore
from app.commands.importing import import_table
from app.commands.looks import history, letters, sessions
from app.commands.options import ConfigOption, SetOption
from app.commands.pipeline import pipeline
from app.commands.policy import policy
from app.commands.server import UrlOption, client_of
from app.commands.snapshots import export, snapshots
from app.commands.users import user
from app.config import Config, load_config
from app.core.errors import Code, Error
from app.core.events import CURRENT, DELETE, GAP, RESET
from app.core.freshness import FRESH, SILENT
from rowcast_client import Event
from rowcast_client.calls import cursor_of, topic_path
from rowcast_client.following import Place

command = typer.Typer(
    name="rowcast",
    help="The real-time data server: every row is a topic, every topic is a row.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


command.add_typer(user)
command.add_typer(snapshots)
command.command()(export)
command.command()(backup)
command.command()(restore)
command.command()(history)
command.command()(sessions)
command.add_typer(letters)
command.command(name="import")(import_table)
command.add_typer(pipeline)
command.add_typer(policy)


class Format(StrEnum):
    """A way to write values as bytes."""

    JSON = "json"
    CBOR = "cbor"
    MSGPACK = "msgpack"


MEDIA_TYPES: Final = {Format.JSON: JSON, Format.CBOR: CBOR, Format.MSGPACK: MSGPACK}
WITHOUT_VALUE: Final = frozenset({CURRENT, DELETE, GAP, RESET, SILENT, FRESH})
"""Kinds of events that bring no value of a record."""
SUFFIXES: Final = {
    ".json": JSON,
    ".cbor": CBOR,
    ".msgpack": MSGPACK,
    ".txt": "text/plain; charset=utf-8",
}
"""Content types of files, by the end of their name; all others are bytes."""

SchemaOption = Annotated[
    Path | None, typer.Option("--schema", help="File of tables [default: schema.graphql].")
]
ResourcesOption = Annotated[
    Path | None, typer.Option("--resources", help="Custom resources [default: resources].")
]
DataOption = Annotated[
    Path | None, typer.Option("--data", help="Where records are kept [default: data].")
]
HttpPortOption = Annotated[
    int | None, typer.Option("--http-port", help="Port of HTTP; 0 takes a free one.")
]
MqttPortOption = Annotated[
    int | None, typer.Option("--mqtt-port", help="Port of MQTT; 0 takes a free one.")
]
CountOption = Annotated[
    int, typer.Option("--count", "-n", min=0, help="Stop after so many events; 0 means never.")
]
ContentTypeOption = Annotated[
    str | None, typer.Option("--content-type", help="What the value is [default: guessed].")
]
PathArgument = Annotated[str, typer.Argument(help="As in a URL: Dog/1, or Dog/?age=gt=3.")]


def main() -> None:
    """Run the command; the entry point of the script ``rowcast``."""
    try:
        command()
    except Error as error:
        print(f"rowcast: {error.message}", file=sys.stderr)
        sys.exit(1)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@command.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """Take options before a command's name."""


# -- the server ------------------------------------------------------------------------------------


@command.command()
def serve(
    config: ConfigOption = None,
    schema: SchemaOption = None,
    resources: ResourcesOption = None,
    data: DataOption = None,
    http_port: HttpPortOption = None,
    mqtt_port: MqttPortOption = None,
    settings: SetOption = None,
) -> None:
    """Start the server; Ctrl-C stops it.

    Example: rowcast serve --http-port 8080 --set mqtt.max_connections=5000
    """
    flags = {
        "schema": schema,
        "resources": resources,
        "data": data,
        "http.port": http_port,
        "mqtt.network.port": mqtt_port,
    }
    chosen = _settings(config, flags, settings)
    gc.disable()  # until it is ready: what is made now stays, and there is nothing to collect
    from app.main import serve as run  # noqa: PLC0415 - other commands need no server

    run(chosen)


@command.command()
def check(
    config: ConfigOption = None,
    schema: SchemaOption = None,
    resources: ResourcesOption = None,
    settings: SetOption = None,
) -> None:
    """Check settings, schema, resources and certificates without starting anything.

    Prints what was found, or each problem with its file, line and column, with exit code 1.

    Example: rowcast check --schema schema.graphql
    """
    chosen = _settings(config, {"schema": schema, "resources": resources}, settings)
    from app.engine.loader import load_resources  # noqa: PLC0415
    from app.schema import load_schema  # noqa: PLC0415
    from app.wiring.doors import certificates_of  # noqa: PLC0415 - other commands need no server

    problems = []
    try:
        tables = load_schema(chosen.schema_file).tables
        _tell_found(chosen.schema_file, [table.name for table in tables])
    except Error as error:
        problems.append(error.message)
    try:
        _tell_found(chosen.resources, [path for path, _ in load_resources(chosen.resources)])
    except Error as error:
        problems.append(error.message)
    try:
        if (certificates := certificates_of(chosen, time.time)) is not None:
            _tell_found(Path(str(chosen.tls.certificate)), [str(certificates.load())])
    except Error as error:
        problems.append(error.message)
    if problems:
        raise Error(Code.INVALID, "\n".join(problems))


def _tell_found(place: Path, names: list[str]) -> None:
    print(f"{place}: {', '.join(names) or 'nothing declared'}")


def _settings(file: Path | None, flags: Mapping[str, object], settings: list[str] | None) -> Config:
    """Join the file, the environment and the command line; a flag wins over ``--set``."""
    given: dict[str, object] = {}
    for text in settings or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise Error(Code.INVALID, f"--set {text}: write --set name=value")
        given[name.strip()] = value
    given |= {name: value for name, value in flags.items() if value is not None}
    return load_config(file, None, given)


# -- records ---------------------------------------------------------------------------------------


@command.command()
def get(
    path: PathArgument,
    fmt: Annotated[
        Format | None, typer.Option("--format", help="Ask for this format [default: any].")
    ] = None,
    url: UrlOption = None,
) -> None:
    """Print a record, a table, or the answer to a query.

    Example: rowcast get Dog/1
    """
    accept = MEDIA_TYPES[fmt] if fmt else "*/*"
    with client_of(url) as client:
        response = client.request("GET", _url_path(path), headers={"Accept": accept})
    body = response.content
    if response.headers.get("content-type", "").startswith(JSON) and sys.stdout.isatty():
        body = json.dumps(response.json(), indent=2, ensure_ascii=False).encode() + b"\n"
    _write(body)


@command.command()
def put(
    path: PathArgument,
    value: Annotated[
        str, typer.Argument(help="JSON or text; - reads standard input, @FILE a file.")
    ] = "-",
    content_type: ContentTypeOption = None,
    url: UrlOption = None,
) -> None:
    """Make a record this value, and print the cursor of the write.

    Example: rowcast put Dog/1 '{"name": "Rex", "breed": "Labrador"}'
    """
    body, guess = _value(value)
    with client_of(url) as client:
        headers = {"Content-Type": content_type or guess}
        _tell_cursor(client.request("PUT", _url_path(path), body, headers))


@command.command()
def delete(
    path: Annotated[str, typer.Argument(help="As in a URL: Dog/1.")], url: UrlOption = None
) -> None:
    """Remove a record.

    Example: rowcast delete Dog/1
    """
    with client_of(url) as client:
        _tell_cursor(client.request("DELETE", _url_path(path)))


@command.command()
def pub(
    topic: Annotated[str, typer.Argument(help="A topic: chat/lobby.")],
    value: Annotated[
        str, typer.Argument(help="JSON or text; - reads standard input, @FILE a file.")
    ],
    retain: Annotated[
        bool, typer.Option("--retain", help="Keep it as the topic's record.")
    ] = False,
    qos: Annotated[
        int | None, typer.Option("--qos", min=0, max=1, help="As in MQTT; says what is logged.")
    ] = None,
    content_type: ContentTypeOption = None,
    url: UrlOption = None,
) -> None:
    """Send a message to everyone who watches a topic, and print its cursor.

    The topic's record stays as it is, unless --retain makes it this value.

    Example: rowcast pub chat/lobby '{"from": "ann", "text": "hello"}'
    """
    body, guess = _value(value)
    method, query = ("PUT", "") if retain else ("POST", "?retain=false")
    if qos is not None:
        query += f"{'&' if query else '?'}qos={qos}"
    with client_of(url) as client:
        headers = {"Content-Type": content_type or guess}
        _tell_cursor(client.request(method, topic_path(topic) + query, body, headers))


def _url_path(text: str) -> str:
    """Return the path and query that a person wrote, with or without the slash before it.

    A '#' is part of it, as in a topic, and no fragment: that would never reach the server.
    """
    return "/" + text.removeprefix("/").replace("#", "%23")


def _value(text: str) -> tuple[bytes, str]:
    """Return the bytes that an argument stands for, and their content type."""
    if text == "-":
        body = sys.stdin.buffer.read()
        return body, _guess(body)
    if text.startswith("@"):
        try:
            body = Path(text[1:]).read_bytes()
        except OSError as error:
            raise Error(Code.INVALID, f"{text[1:]} cannot be read: {error.strerror}") from error
        return body, SUFFIXES.get(Path(text[1:]).suffix.lower(), RAW)
    body = text.encode("utf-8", "surrogateescape")
    return body, _guess(body)


def _guess(body: bytes) -> str:
    """JSON if it is, or seems meant to be, so that the server can tell the mistake; else text."""
    with suppress(ValueError):
        json.loads(body)
        return JSON
    if body.lstrip()[:1] in {b"{", b"[", b'"'}:
        return JSON
    try:
        body.decode()
    except UnicodeDecodeError:
        return RAW
    return "text/plain; charset=utf-8"


# -- events ----------------------------------------------------------------------------------------


@command.command()
def sub(
    filters: Annotated[list[str], typer.Argument(help="Topic filters; + and # are wildcards.")],
    fmt: Annotated[
        Format, typer.Option("--format", help="How events are written; json is one on a line.")
    ] = Format.JSON,
    raw: Annotated[
        bool, typer.Option("--raw", help="Write values only, without the event.")
    ] = False,
    new: Annotated[bool, typer.Option("--new", help="Leave out what is there already.")] = False,
    count: CountOption = 0,
    url: UrlOption = None,
) -> None:
    """Write every event at some topics, beginning with their current records.

    Example: rowcast sub 'Dog/#' 'chat/+' --new
    """
    with client_of(url) as client, suppress(KeyboardInterrupt):
        written = 0
        place: Place = {"start": "new"} if new else {}
        for event in client.subscribe(*filters, **place):
            if raw and event.kind in WITHOUT_VALUE:
                continue
            _write(_encoded(event.value if raw else event.fields, fmt, raw=raw))
            written += 1
            if written == count:
                return


@command.command()
def tail(
    topics: Annotated[str, typer.Argument(metavar="[FILTER]", help="A topic filter.")] = "#",
    since: Annotated[
        str, typer.Option(help="Go on after this cursor [default: only what is new].")
    ] = "",
    count: CountOption = 0,
    url: UrlOption = None,
) -> None:
    """Print each event on a line: cursor, kind, topic, value.

    It goes on by itself when the connection is lost, without losing or repeating an event. Ctrl-C
    prints the cursor to continue from.

    Example: rowcast tail 'Weather/#' --since 3f9a1c2e:1042
    """
    place: Place = {"since": since} if since else {"start": "new"}
    with client_of(url) as client:
        events = client.subscribe(topics, **place)
        try:
            for printed, event in enumerate(events, 1):
                print(_line(events.cursor, event), flush=True)
                if printed == count:
                    return
        except KeyboardInterrupt:
            pass
    if events.cursor:
        print(f"continue with: rowcast tail '{topics}' --since {events.cursor}", file=sys.stderr)


def _line(cursor: str, event: Event) -> str:
    value = CODECS[JSON].encode(event.fields.get("gap", event.value)).decode()
    topic = _printable(event.topic)
    return f"{cursor}  {event.kind:<8}  {topic}  {_printable(value)}"


def _printable(text: str) -> str:
    """Spell control characters out, for a topic must not drive a terminal."""
    if text.isprintable():
        return text
    return "".join(x if x.isprintable() else x.encode("unicode_escape").decode() for x in text)


def _encoded(value: object, fmt: Format, *, raw: bool) -> bytes:
    if raw and fmt is Format.JSON and isinstance(value, str | bytes):
        return (value if isinstance(value, bytes) else value.encode()) + b"\n"
    body = CODECS[MEDIA_TYPES[fmt]].encode(value)
    return body + b"\n" if fmt is Format.JSON else body


def _write(body: bytes) -> None:
    """Write a body as it is; on a terminal the prompt then begins on a line of its own."""
    sys.stdout.buffer.write(body)
    if sys.stdout.isatty() and not body.endswith(b"\n"):
        sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()


def _tell_cursor(response: Response) -> None:
    """Print the cursor that a write got, if the server tells it: a place to watch from."""
    if cursor := cursor_of(response):
        print(cursor)
    elif response.status_code == HTTPStatus.MULTI_STATUS:
        refused = [row for row in response.json() if "error" in row]
        raise Error(
            Code.UNPROCESSABLE,
            "\n".join(f"{row['id'] or 'a record'}: {row['error']['detail']}" for row in refused),
        )


if __name__ == "__main__":
    main()
