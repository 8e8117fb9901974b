"""The connections of one process to servers."""

from contextlib import suppress
from functools import lru_cache
from urllib.parse import urlsplit

import httpx

from rowcast.core.pipeline_limits import REMOTE_ANSWER_SECONDS, REMOTE_SERVERS_MAX
from rowcast_client.connection import LOCAL, trust_for


class _Client(httpx.Client):
    """Connections to one server, closed when nobody has them any more.

    One that is no longer remembered may be in use.
    """

    def __del__(self) -> None:
        """Close them; one that could not be made has none."""
        with suppress(Exception):
            self.close()


@lru_cache(REMOTE_SERVERS_MAX)
def client_of(url: str, authorization: str, authority: str) -> httpx.Client:
    """Return the connections to a server; see ``rowcast_lake.spark.remote.Remote``."""
    return _Client(
        timeout=REMOTE_ANSWER_SECONDS,
        headers={"authorization": authorization} if authorization else {},
        # Use the environment's proxy only if the server is on another machine.
        trust_env=urlsplit(url).hostname not in LOCAL,
        verify=trust_for(url, authority),
    )
