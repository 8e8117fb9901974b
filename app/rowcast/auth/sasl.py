"""Challenge-response authentication: the steps of each method.

An ``Exchange`` takes each client message and returns the server's answer until the client is
authenticated. It must not know how messages are carried: MQTT's AUTH packets, or others.
"""

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from rowcast.auth.scram import Challenge, read_client_first
from rowcast.auth.users import User, Users, decoy, user_name
from rowcast.auth.verifier import wrong_password
from rowcast.core.authentication_limits import SCRAM_NONCE_BYTES
from rowcast.core.errors import Code, Error


@dataclass(frozen=True, slots=True)
class Step:
    """The server's message to the client; the last step also has the user."""

    data: bytes
    user: User | None = None

    @property
    def done(self) -> bool:
        """Whether this was the last step, and the user is authenticated."""
        return self.user is not None


class Exchange(Protocol):
    """One dialogue with one client."""

    @property
    def claimed(self) -> str:
        """The user name that the client claims; empty before its first message."""

    async def step(self, data: bytes) -> Step:
        """Take a message of the client. INVALID and UNAUTHENTICATED end the exchange."""


class ScramExchange:
    """SCRAM-SHA-256: the server learns no password, and proves that it knows the user too."""

    __slots__ = ("_asked", "_challenge", "_random", "_secret", "_user", "_users", "claimed")

    def __init__(self, users: Users, secret: bytes, random: Callable[[int], bytes]) -> None:
        self._users = users
        self._secret = secret
        self._random = random
        self.claimed = ""
        self._asked = False
        self._challenge: Challenge | None = None
        self._user: User | None = None

    async def step(self, data: bytes) -> Step:
        """Take a message of the client's; an empty one at the start asks it to begin."""
        if self._challenge is not None:
            proof = self._challenge.judge(data)
            if self._user is None:  # it cannot come so far: nobody knows a decoy's password
                raise wrong_password()
            return Step(proof, self._user)
        if not data and not self._asked:  # RFC 4422, 5: the client is to speak first
            self._asked = True
            return Step(b"")
        first = read_client_first(data)
        self.claimed = first.username
        nonce = b64encode(self._random(SCRAM_NONCE_BYTES)).decode()
        name, user = await self._find(first.username)
        verifier = user.verifier if user is not None else None
        if verifier is not None:
            self._user = user
        self._challenge = Challenge(first, verifier or decoy(name, self._secret), nonce)
        return Step(self._challenge.message)

    async def _find(self, text: str) -> tuple[str, User | None]:
        try:
            name = user_name(text)
        except Error as error:
            raise Error(Code.UNAUTHENTICATED, error.message) from None
        return name, await self._users.find(name)
