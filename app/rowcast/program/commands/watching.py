"""The commands that print live events: ``rowcast sub`` and ``rowcast tail``."""

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Final
from urllib.parse import urlsplit

import typer

from rowcast.codecs.registry import JSON, encode_answer
from rowcast.core.events import CURRENT, DELETE, GAP, RESET
from rowcast.core.freshness import FRESH, SILENT
from rowcast.program.commands.output import MEDIA_TYPES, Format, printable, write_body
from rowcast.program.commands.server import UrlOption, client_of
from rowcast_client import Event
from rowcast_client.following import LIVE, WAITING, Place

WITHOUT_VALUE: Final = frozenset({CURRENT, DELETE, GAP, RESET, SILENT, FRESH})
"""Kinds of events without a value."""

REFUSED: Final = "$AUDIT/refused/#"
EVERYTHING: Final = "#"
"""The filter of the events of refusals."""

CountOption = Annotated[
    int, typer.Option("--count", "-n", min=0, help="Stop after N events; 0 means never.")
]


def sub(
    filters: Annotated[list[str], typer.Argument(help="Topic filters; + and # are wildcards.")],
    fmt: Annotated[
        Format, typer.Option("--format", help="Format of the events; json prints one per line.")
    ] = Format.JSON,
    raw: Annotated[
        bool, typer.Option("--raw", help="Print only the values, not the events.")
    ] = False,
    new: Annotated[
        bool, typer.Option("--new", help="Begin with the next event, without current records.")
    ] = False,
    count: CountOption = 0,
    url: UrlOption = None,
) -> None:
    """Subscribe to topics: print their current records, then every event.

    Example: rowcast sub 'Dog/#' 'chat/+' --new
    """
    with client_of(url) as client, suppress(KeyboardInterrupt):
        written = 0
        place: Place = {"start": "new"} if new else {}
        for event in client.subscribe(*filters, **place):
            if raw and event.kind in WITHOUT_VALUE:
                continue
            write_body(_encoded(event.value if raw else event.fields, fmt, raw=raw))
            written += 1
            if written == count:
                return


def tail(
    topics: Annotated[str, typer.Argument(metavar="[FILTER]", help="A topic filter.")] = EVERYTHING,
    since: Annotated[
        str, typer.Option(help="Continue after this cursor [default: the newest].")
    ] = "",
    count: CountOption = 0,
    refused: Annotated[
        bool, typer.Option("--refused", help="Print refusals instead: who, what and why.")
    ] = False,
    url: UrlOption = None,
) -> None:
    """Subscribe to topics, and print each new event on a line: cursor, kind, topic, value.

    After a lost connection it reconnects and resumes from its cursor, so that no event is lost or
    printed twice. The state of the connection goes to standard error. Ctrl-C prints the cursor from
    which to continue.

    Example: rowcast tail 'Weather/#' --since 3f9a1c2e:1042
    """
    place: Place = {"since": since} if since else {"start": "new"}
    if refused:
        if topics != EVERYTHING:
            raise typer.BadParameter("--refused is a filter of its own; leave the other one out")
        topics = REFUSED
    with client_of(url) as client:
        connection = Connection(client.url, topics)
        events = client.subscribe(topics, on_state=connection.on_state, **place)
        connection.position = lambda: events.cursor
        try:
            shown = (event for event in events if event.kind != CURRENT)
            for printed, event in enumerate(shown, 1):
                line = _refusal(event) if refused else _line(events.cursor, event)
                print(line, flush=True)
                if printed == count:
                    return
        except KeyboardInterrupt:
            pass
    if events.cursor:
        print(f"continue with: rowcast tail '{topics}' --since {events.cursor}", file=sys.stderr)


def _refusal(event: Event) -> str:
    """Return a line of ``tail --refused``: time, caller, action and reason."""
    facts = event.value if isinstance(event.value, dict) else {}
    who = facts.get("client_id") or facts.get("user")
    where = f"{facts.get('door')} {facts.get('peer', '')}".strip()
    more = f" (and {facts['more']} more)" if facts.get("more") else ""
    text = (
        f"{facts.get('at')}  {who} ({where})  {facts.get('action')} {facts.get('topic', '')}: "
        f"{facts.get('reason')}{more}"
    )
    return printable(text)


def _without_credentials(url: str) -> str:
    """Return a URL without name and password, for a terminal that others see."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


class Connection:
    """The connection status that ``tail`` prints on standard error."""

    def __init__(self, url: str, topics: str) -> None:
        self.position: Callable[[], str] = str
        """Returns the cursor to continue from; empty before there is one."""
        self._url = _without_credentials(url)
        self._topics = printable(topics)
        self._lost = False

    def on_state(self, state: str) -> None:
        """Print a line when it connects, and when the connection is lost."""
        if state == LIVE:
            print(self._connected(), file=sys.stderr, flush=True)
            self._lost = False
        elif state == WAITING and not self._lost:
            print(f"connection to {self._url} lost; trying again", file=sys.stderr, flush=True)
            self._lost = True

    def _connected(self) -> str:
        if not self._lost:
            return f"connected to {self._url}, watching {self._topics}; Ctrl-C ends"
        cursor = self.position()
        return f"connected again, resuming after {cursor}" if cursor else "connected again"


def _line(cursor: str, event: Event) -> str:
    value = encode_answer(event.fields.get("gap", event.value), JSON).decode()
    topic = printable(event.topic)
    return f"{cursor}  {event.kind:<8}  {topic}  {printable(value)}"


def _encoded(value: object, fmt: Format, *, raw: bool) -> bytes:
    if raw and fmt is Format.JSON and isinstance(value, str | bytes):
        return (value if isinstance(value, bytes) else value.encode()) + b"\n"
    body = encode_answer(value, MEDIA_TYPES[fmt])
    return body + b"\n" if fmt is Format.JSON else body
