"""The connection of commands to a server, over its public REST and SSE."""

from typing import Annotated

import typer

from rowcast.program.config import load_config
from rowcast_client import SyncRowcast

UrlOption = Annotated[
    str | None,
    typer.Option("--url", help="URL of the server [default: $ROWCAST_URL, then rowcast.yaml's]."),
]


def client_of(url: str | None) -> SyncRowcast:
    """Return a client of the chosen server."""
    config = load_config(None, None, {"url": url} if url else {})
    return SyncRowcast(config.server_url, authority=config.tls.certificate_authority)
