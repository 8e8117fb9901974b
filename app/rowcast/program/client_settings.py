"""What a client command needs of the settings: where the server is, whom to trust, the schema.

Loading the configuration imports every section of it, and with them the kernel: 0.3 seconds of
processor time, more than a short command takes. Without a file of settings and without settings in
the environment there is nothing in it but its defaults and what the command line says, which are
checked here. Anything else, also a mistake, is the configuration's to read and to refuse.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rowcast.core.places import is_url
from rowcast.program.credentials import has_settings

DEFAULT_FILE: Final = "rowcast.yaml"
"""Read from the working directory if it exists and no other file was given."""
DEFAULT_URL: Final = "http://127.0.0.1:9926"
"""Of ``http.host`` and ``http.port``, as the configuration has them."""
DEFAULT_SCHEMA: Final = Path("schema.graphql")
_ADDRESS: Final = re.compile(r"https?://[^/\s]+/?")
"""What the configuration takes for ``url``."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Where a command finds the server and its schema."""

    url: str
    authority: Path | None
    """A file with authorities that it trusts besides the system's."""
    schema_file: Path


def client_settings(url: str | None = None, schema: Path | None = None) -> ClientSettings:
    """Return the settings of a client command; raises the Error of the configuration."""
    plain = _is_plain(url or DEFAULT_URL, schema or DEFAULT_SCHEMA)
    if plain and not has_settings() and not Path(DEFAULT_FILE).exists():
        return ClientSettings((url or DEFAULT_URL).rstrip("/"), None, schema or DEFAULT_SCHEMA)
    from rowcast.program.config import load_config  # noqa: PLC0415

    given: dict[str, object] = {"url": url} if url else {}
    config = load_config(None, None, given | ({} if schema is None else {"schema": schema}))
    authority = config.authority or config.tls.certificate_authority
    return ClientSettings(config.server_url, authority, config.schema_file)


def _is_plain(url: str, schema: Path) -> bool:
    """Whether the configuration would certainly take both as they are."""
    place = str(schema)
    if not (url.isprintable() and place.isprintable()) or is_url(place) or place[0] == "~":
        return False
    return _ADDRESS.fullmatch(url) is not None
