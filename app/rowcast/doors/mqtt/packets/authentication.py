"""Authentication of clients: by CONNECT alone, or by an exchange of AUTH packets (MQTT 5, 4.12).

This module transports the exchange, and ``auth`` evaluates it. During CONNECT the connection waits
for the client's answers until the connect timeout. On a live connection nothing waits: each AUTH
starts a short task, and other packets are processed meanwhile (MQTT 5, 4.12.1).
"""

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from rowcast.auth.authenticator import Credentials, is_same
from rowcast.auth.sasl import Exchange, Step
from rowcast.auth.users import User
from rowcast.core.callers import NONE, Caller
from rowcast.core.errors import Code, Error
from rowcast.doors.mqtt.connections.transport import certificate_of
from rowcast.doors.mqtt.packets.messages import DOOR
from rowcast.mqtt.packets import Auth, Connect
from rowcast.mqtt.properties import Properties
from rowcast.mqtt.reasons import Reason
from rowcast.mqtt.violations import Violation, protocol_error

if TYPE_CHECKING:
    from rowcast.doors.mqtt.client import Client

log = logging.getLogger("rowcast.mqtt")


def known_at_once(client: "Client", packet: Connect) -> Caller | None:
    """Return the caller of a CONNECT that shows nothing, if nothing of its answer waits.

    That is no hook, no disk and no other session of its client id. None: ``authenticate`` tells.
    """
    broker, client_id = client.broker, packet.client_id
    method = (packet.properties or {}).get("authentication_method")
    shows = packet.username is not None or packet.password is not None or method is not None
    if (
        shows
        or not client_id
        or packet.will is not None
        or client_id in broker.sessions
        or broker.keeper.lingers(client_id)
        or broker.kernel.hooks.connecting
        or broker.settings.auto_subscriptions is not None
        or certificate_of(client.transport) is not None
    ):
        return None
    caller = broker.settings.authenticator.at_once(client.peer, DOOR, client_id)
    if caller is not None and broker.guard.banned_now(client.peer, client_id, caller.user):
        return None
    return caller


async def authenticate(
    client: "Client", packet: Connect, client_id: str
) -> tuple[Caller, dict[str, object]]:
    """Return the caller of a CONNECT, and properties for CONNACK. Raises Error.

    Hooks are notified of a refusal (L9).
    """
    certificate = certificate_of(client.transport)
    shown = Credentials(packet.username, packet.password, certificate, client_id, client.peer, DOOR)
    method = (packet.properties or {}).get("authentication_method")
    if method is not None:
        client.dialogue = Dialogue(client, str(method), shown)
        return await client.dialogue.connect(_data(packet.properties))
    try:
        return await client.broker.settings.authenticator.identify(shown), {}
    except Error as error:
        _refused(client, shown.username or "", shown, error)
        raise


def _refused(client: "Client", name: str, shown: Credentials, error: Error) -> None:
    """Report a failed authentication."""
    caller = Caller(name or "anonymous", NONE, DOOR, shown.client_id, shown.peer)
    client.broker.kernel.hooks.auth_failed(caller, error.message)


class Dialogue:
    """One client's exchange of AUTH packets, and later ones on the same connection."""

    __slots__ = (
        "_answer",
        "_authenticator",
        "_client",
        "_exchange",
        "_method",
        "_shown",
        "_task",
    )

    def __init__(self, client: "Client", method: str, shown: Credentials) -> None:
        self._client = client
        self._method = method
        self._shown = shown
        self._authenticator = client.broker.settings.authenticator
        self._answer: asyncio.Future[bytes] | None = None
        """The answer that CONNECT waits for."""
        self._exchange: Exchange | None = None
        """The running exchange."""
        self._task: asyncio.Task[None] | None = None
        """A step of a re-authentication."""

    async def connect(self, data: bytes) -> tuple[Caller, dict[str, object]]:
        """Return the caller, and the properties of CONNACK (MQTT-4.12.0-5)."""
        try:
            step = await self._step(data)
            while step.user is None:
                self._answer = asyncio.get_running_loop().create_future()
                self._say(Reason.CONTINUE_AUTHENTICATION, step)  # MQTT-4.12.0-2
                step = await self._step(await self._answer)
            caller = self._authenticator.caller(step.user, self._shown)
        except Error as error:
            self._failed(error)
            raise
        self._exchange = None
        return caller, self._properties(step)

    def take(self, packet: Auth) -> None:
        """Process an AUTH. Raises a Violation for an unexpected one."""
        if (packet.properties or {}).get("authentication_method") != self._method:
            raise Violation(  # MQTT-4.12.0-5, MQTT-4.12.1-1
                Reason.BAD_AUTHENTICATION_METHOD,
                f"AUTH must name the method of CONNECT, {self._method!r}",
            )
        data = _data(packet.properties)
        if self._client.opening is not None:
            self._answered(packet, data)
            return
        begins = packet.reason == Reason.RE_AUTHENTICATE
        if self._task is not None or begins == (self._exchange is not None):
            raise protocol_error(
                "AUTH came in the middle of a re-authentication or without its beginning: "
                "send 0x19 once, then 0x18 as the answer to each AUTH"
            )
        self._task = asyncio.get_running_loop().create_task(self._renew(data))

    def abandon(self) -> None:
        """Called when the connection closes: cancels a waiting exchange."""
        if self._answer is not None:
            self._answer.cancel()

    def _answered(self, packet: Auth, data: bytes) -> None:
        """Pass an answer to the waiting CONNECT (MQTT-4.12.0-3)."""
        answer = self._answer
        if packet.reason != Reason.CONTINUE_AUTHENTICATION or answer is None or answer.done():
            raise protocol_error("before CONNACK each AUTH is 0x18 and answers one of the server's")
        answer.set_result(data)

    async def _step(self, data: bytes) -> Step:
        """Run the next step of the exchange, starting one if needed."""
        if self._exchange is None:
            self._exchange = await self._authenticator.exchange(self._method)
            if self._exchange is None:  # MQTT-4.12.0-1
                raise Error(
                    Code.UNSUPPORTED, f"the authentication method {self._method!r} is not offered"
                )
            return await self._begin(self._exchange, data)
        if not self._exchange.claimed:  # it was requested to start
            return await self._begin(self._exchange, data)
        trial = self._authenticator.trial(self._exchange.claimed, self._shown)
        with self._authenticator.tries.begin(trial) as attempt:
            try:
                step = await self._exchange.step(data)
            except Error as error:
                if error.code is Code.UNAUTHENTICATED:
                    attempt.failed(is_user=self._authenticator.is_user(trial.user))
                raise
            attempt.succeeded()
            return step

    async def _begin(self, exchange: Exchange, data: bytes) -> Step:
        """Start with the client's user name. Raises BUSY while its password is being guessed."""
        step = await exchange.step(data)
        if exchange.claimed:
            trial = self._authenticator.trial(exchange.claimed, self._shown)
            self._authenticator.tries.check(trial)
        return step

    def _failed(self, error: Error) -> None:
        name = self._exchange.claimed if self._exchange is not None else ""
        self._authenticator.failed(name, error)
        _refused(self._client, name, self._shown, error)

    async def _renew(self, data: bytes) -> None:
        """Run a step of a re-authentication."""
        client = self._client
        try:
            step = await self._step(data)
            if step.user is not None:
                self._accept(step.user)
                self._exchange = None
        except Error as error:
            self._failed(error)
            client.disconnect(Reason.NOT_AUTHORIZED, error.message)  # MQTT-4.12.1-2
            return
        except Exception:
            log.exception("the re-authentication of %s failed", client.name)
            client.disconnect(Reason.UNSPECIFIED_ERROR, "the server failed; its log has the reason")
            return
        finally:
            self._task = None
        if not client.closing:
            more = step.user is None
            self._say(Reason.CONTINUE_AUTHENTICATION if more else Reason.SUCCESS, step)

    def _accept(self, user: User) -> None:
        """Continue as the same user, with its current rights."""
        client = self._client
        if client.caller is None or user.name != client.caller.user:
            raise Error(
                Code.DENIED, "a connection cannot change its user; open another one for that"
            )
        fresh = self._authenticator.caller(user, self._shown)
        if not is_same(fresh, client.caller):
            client.caller = replace(fresh, connection=client.caller.connection)

    def _say(self, reason: Reason, step: Step) -> None:
        self._client.send(Auth(reason, self._properties(step)))

    def _properties(self, step: Step) -> dict[str, object]:
        properties: dict[str, object] = {"authentication_method": self._method}
        if step.data:
            properties["authentication_data"] = step.data
        return properties


def _data(properties: Properties) -> bytes:
    data = (properties or {}).get("authentication_data", b"")
    return data if isinstance(data, bytes) else b""
