"""The connection of commands to a server, over its public REST and SSE."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rowcast.program.config import Config, load_config
from rowcast.program.credentials import credentials
from rowcast_client import SyncRowcast

UrlOption = Annotated[
    str | None,
    typer.Option("--url", help="URL of the server [default: $ROWCAST_URL, then rowcast.yaml's]."),
]


def client_of(url: str | None) -> SyncRowcast:
    """Return a client of the chosen server, signed in by the URL, else by the environment."""
    config = load_config(None, None, {"url": url} if url else {})
    who: dict[str, Any] = credentials(config.server_url)
    return SyncRowcast(config.server_url, authority=authority_of(config), **who)


def authority_of(config: Config) -> Path | None:
    """Return the file with authorities that a client trusts besides the system's."""
    return config.authority or config.tls.certificate_authority
