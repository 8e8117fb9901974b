"""The commands ``rowcast history``, ``sessions`` and ``dead-letters``.

They use only the server's public REST.
"""

import json
import sys
from typing import Annotated, Final
from urllib.parse import quote, urlencode

import typer

from rowcast.codecs.registry import JSON
from rowcast.core.errors import Code, Error
from rowcast.program.commands.output import printable
from rowcast.program.commands.server import UrlOption, client_of
from rowcast_client.calls import topic_path

LETTERS: Final = "/$SYS/dead_letters/"
SESSIONS: Final = "/$SYS/sessions/"
_LINES: Final = {"Accept": "application/x-ndjson"}

letters = typer.Typer(
    name="dead-letters",
    help="List, replay and remove dead letters: messages that a bridge failed to deliver.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


def history(
    topic: Annotated[
        str, typer.Argument(help="A topic; with a slash at the end, all topics below it: home/.")
    ],
    start: Annotated[
        str, typer.Option("--from", help="Start: a time, a duration ago (-1h), or a cursor.")
    ] = "",
    end: Annotated[str, typer.Option("--to", help="End, exclusive; likewise.")] = "",
    last: Annotated[
        int, typer.Option("--last", min=0, help="Print only the last N events; 0 means all.")
    ] = 0,
    url: UrlOption = None,
) -> None:
    """Print the past events of a topic, one JSON object per line, oldest first.

    Without options it prints the last ten.

    Example: rowcast history Weather/JFK --from=-1h
    """
    words = {"_from": start, "_to": end, "_last": str(last) if last else ""}
    given = {name: value for name, value in words.items() if value}
    if not given:
        given = {"_last": "10"}
    if not _show(f"{topic_path(topic)}?{urlencode(given)}", url):
        when = " in that time" if start or end else ""
        print(f"the log has no events of {topic}{when}", file=sys.stderr)


def sessions(
    client_id: Annotated[str, typer.Argument(help="A client identifier [default: all].")] = "",
    end: Annotated[bool, typer.Option("--end", help="End the session and its connection.")] = False,
    url: UrlOption = None,
) -> None:
    """Print the sessions of MQTT clients, one JSON object per line, or end a session.

    Example: rowcast sessions sensor-7 --end
    """
    path = SESSIONS + quote(client_id, safe="")
    if not end:
        if not show_rows(path, url):
            print("no MQTT client has a session", file=sys.stderr)
        return
    if not client_id:
        raise Error(Code.INVALID, "--end ends one session: name its client")
    with client_of(url) as client:
        client.request("DELETE", path)


@letters.command(name="list")
def list_letters(
    broker: Annotated[str, typer.Argument(help="A bridge [default: all].")] = "",
    url: UrlOption = None,
) -> None:
    """Print dead letters, one JSON object per line, oldest first.

    Example: rowcast dead-letters list cloud
    """
    query = f"?broker=={quote(broker, safe='')}" if broker else ""
    if not show_rows(LETTERS + query, url):
        of = f" of a bridge {printable(broker)}" if broker else ""
        print(f"no dead letters{of}", file=sys.stderr)


@letters.command()
def replay(
    what: Annotated[
        str, typer.Argument(help="A bridge (cloud), or one of its dead letters (cloud/17).")
    ],
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="Replay at most N of a bridge, the oldest first.")
    ] = 100,
    url: UrlOption = None,
) -> None:
    """Replay dead letters, and print how many.

    Example: rowcast dead-letters replay cloud --limit 10
    """
    broker, one, _ = what.partition("/")
    with client_of(url) as client:
        if one:
            client.request("PUT", _path_of(what), b"{}", {"Content-Type": JSON})
            print(1)
            return
        body = json.dumps({"broker": broker, "limit": limit}).encode()
        answer = client.request("POST", LETTERS, body, {"Content-Type": JSON})
        print(answer.json()["replayed"])


@letters.command()
def remove(
    what: Annotated[str, typer.Argument(help="A dead letter: cloud/17.")], url: UrlOption = None
) -> None:
    """Remove a dead letter without sending it.

    Example: rowcast dead-letters remove cloud/17
    """
    with client_of(url) as client:
        client.request("DELETE", _path_of(what))


def show_rows(path: str, url: str | None) -> int:
    """Print rows below $SYS: one, or the pages of a list; return the number of rows.

    It comes as JSON only.
    """
    shown = 0
    with client_of(url) as client:
        while path:
            answer = client.request("GET", path, headers={"Accept": JSON})
            rows = answer.json()
            for row in rows if isinstance(rows, list) else [rows]:
                print(json.dumps(row, ensure_ascii=False, separators=(",", ":")))
                shown += 1
            path = answer.links.get("next", {}).get("url", "")
    return shown


def _path_of(letter: str) -> str:
    return LETTERS + quote(letter, safe="/")


def _show(path: str, url: str | None) -> bool:
    """Print a response; return whether it has content."""
    with client_of(url) as client:
        body = client.request("GET", path, headers=_LINES).content
    sys.stdout.buffer.write(body if not body or body.endswith(b"\n") else body + b"\n")
    sys.stdout.buffer.flush()
    return bool(body)
