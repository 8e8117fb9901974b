"""The connection of commands to a server, over its public REST and SSE."""

from typing import Annotated, Any

import typer

from rowcast.program.client_settings import ClientSettings, client_settings
from rowcast.program.credentials import credentials
from rowcast_client import SyncRowcast

UrlOption = Annotated[
    str | None,
    typer.Option("--url", help="URL of the server [default: $ROWCAST_URL, then rowcast.yaml's]."),
]


def client_of(url: str | None) -> SyncRowcast:
    """Return a client of the chosen server, signed in by the URL, else by the environment."""
    return connected(client_settings(url))


def connected(settings: ClientSettings) -> SyncRowcast:
    """Return a client of the server of these settings, signed in likewise."""
    who: dict[str, Any] = credentials(settings.url)
    return SyncRowcast(settings.url, authority=settings.authority, **who)
