"""Who is it: what a peer showed at a door becomes a Caller, or a refusal.

Every door asks the one ``Authenticator``, so that a rule about users is stated once. It must not
know protocols: a door maps the Error that it raises to its own words.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from app.auth.anonymous import Policy, anonymous_from
from app.core.callers import Caller
from app.core.errors import Code, Error


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a peer showed: a name and password, a certificate, or only its address.

    ``certificate`` is what ``getpeercert()`` of a verified TLS connection returned, else None.
    """

    username: str | None = None
    password: bytes | None = None
    certificate: Mapping[str, object] | None = None
    client_id: str = ""
    peer: str = ""
    door: str = "server"


class Authenticator:
    """Makes the Caller of credentials."""

    def __init__(self, anonymous: Policy = "loopback") -> None:
        self._anonymous = anonymous_from(anonymous)

    async def identify(self, credentials: Credentials) -> Caller:
        """Return who it is. Raises UNAUTHENTICATED or DENIED."""
        caller = self._anonymous(credentials.peer, credentials.door)
        if not caller.grants.read and not caller.grants.write:
            raise Error(
                Code.DENIED, "callers without a name are accepted from this machine only; sign in"
            )
        return replace(caller, client_id=credentials.client_id)
