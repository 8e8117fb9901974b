"""SCRAM-SHA-256, the server's side, without channel binding (RFC 5802, RFC 7677).

Messages in, messages out: ``read_client_first`` parses the claimed name, ``Challenge`` is the
server's first message and checks the proof in the answer. It must not know users, connections or
randomness: the verifier and the nonce are arguments. A malformed message is INVALID; a wrong proof
is UNAUTHENTICATED.
"""

import binascii
import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from dataclasses import dataclass

from rowcast.auth.verifier import Verifier, sign, wrong_password
from rowcast.core.authentication_limits import SCRAM_MESSAGE_BYTES_MAX
from rowcast.core.errors import Code, Error

METHOD = "SCRAM-SHA-256"
"""Its name in the registry of SASL mechanisms."""

_NONCE = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
_NAME = re.compile(r"(?:[^=,\0]|=2C|=3D)+")


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """The client's first message, taken apart."""

    header: str
    """The client's channel binding flag (gs2-header), which its second message repeats."""
    username: str
    nonce: str
    bare: str
    """The message without the header."""


def read_client_first(data: bytes) -> ClientFirst:
    """Read ``n,,n=user,r=nonce``. Raises INVALID."""
    binding, comma, rest = _text(data).partition(",")
    authorize, second, bare = rest.partition(",")
    if not comma or not second:
        raise _broken("the first message should be 'n,,n=<name>,r=<nonce>'")
    if binding.startswith("p="):
        raise _broken("channel binding is not offered; begin with 'n,' or 'y,'")
    if binding not in {"n", "y"}:
        raise _broken("the first message should begin with 'n,' or 'y,'")
    if bare.startswith("m="):
        raise _broken("the mandatory extension 'm' is not known")
    name, nonce, *_ = [*bare.split(","), ""]
    if not name.startswith("n=") or not nonce.startswith("r="):
        raise _broken("the first message should have 'n=<name>,r=<nonce>' after its header")
    username = _unescape(name[2:])
    if authorize and (not authorize.startswith("a=") or _unescape(authorize[2:]) != username):
        raise _broken("acting for somebody else is not offered; leave 'a=' out")
    if not _NONCE.fullmatch(nonce[2:]):
        raise _broken("the nonce should be printable ASCII without a comma")
    return ClientFirst(f"{binding},{authorize},", username, nonce[2:], bare)


class Challenge:
    """The server's challenge after the client's first message; send ``message``."""

    __slots__ = ("_first", "_nonce", "_verifier", "message")

    def __init__(self, first: ClientFirst, verifier: Verifier, nonce: str) -> None:
        self._first = first
        self._verifier = verifier
        self._nonce = first.nonce + nonce
        salt = b64encode(verifier.salt).decode()
        self.message = f"r={self._nonce},s={salt},i={verifier.iterations}".encode()

    def judge(self, data: bytes) -> bytes:
        """Check ``c=biws,r=nonce,p=proof`` and return the server's proof.

        Raises INVALID for a malformed message, UNAUTHENTICATED for a wrong proof.
        """
        unproved, comma, proof = _text(data).rpartition(",p=")
        binding, nonce, *extensions = [*unproved.split(","), ""]
        if not comma or not binding.startswith("c=") or not nonce.startswith("r="):
            raise _broken("the second message should be 'c=<header>,r=<nonce>,p=<proof>'")
        if any(word.startswith("m=") for word in extensions):
            raise _broken("the mandatory extension 'm' is not known")
        if _bytes(binding[2:]) != self._first.header.encode():
            raise _broken("'c=' should repeat the first message's header in base64")
        if not hmac.compare_digest(nonce[2:].encode(), self._nonce.encode()):
            raise _broken("'r=' should repeat the nonce that the server sent")
        signed = b",".join((self._first.bare.encode(), self.message, unproved.encode()))
        if not self._proves(_bytes(proof), signed):
            raise wrong_password()
        return b"v=" + b64encode(sign(self._verifier.server_key, signed))

    def _proves(self, proof: bytes, signed: bytes) -> bool:
        signature = sign(self._verifier.stored_key, signed)
        if len(proof) != len(signature):
            raise _broken(f"the proof should have {len(signature)} bytes")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        stored_key = hashlib.sha256(client_key).digest()
        return hmac.compare_digest(stored_key, self._verifier.stored_key)


def _text(data: bytes) -> str:
    if len(data) > SCRAM_MESSAGE_BYTES_MAX:
        raise _broken(f"a message has at most {SCRAM_MESSAGE_BYTES_MAX} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _broken("a message is UTF-8 text") from None


def _unescape(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise _broken("a name is not empty and writes ',' as '=2C' and '=' as '=3D'")
    return name.replace("=2C", ",").replace("=3D", "=")


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise _broken("'c=' and 'p=' are written in base64") from None


def _broken(message: str) -> Error:
    return Error(Code.INVALID, f"{METHOD}: {message}")
