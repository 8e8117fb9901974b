"""Keys that sign tokens elsewhere: one secret, one public key, or a set of them in a file (JWKS).

Files are read again when they change, by whoever looks now and then; a file that cannot be read
leaves the keys as they were. Each key counts for its own algorithms only, so that a public key is
never taken for a secret (RFC 8725, 3.1). It must not know tokens.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from cryptography.x509 import load_pem_x509_certificate

from rowcast.core.authentication_limits import TOKEN_KEY_BYTES_MIN, TOKEN_KEYS_FILE_BYTES_MAX
from rowcast.core.errors import Code, Error

log = logging.getLogger("rowcast.auth")

_SECRET: Final[Mapping[str, int]] = {"HS256": 32, "HS384": 48, "HS512": 64}
"""Algorithms of secrets, and how many bytes those have at least (RFC 7518, 3.2)."""
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES: Final[Mapping[str, str]] = {
    "secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512",
}  # fmt: skip
ALGORITHMS: Final = (*_SECRET, *_RSA, *_CURVES.values(), "EdDSA")
"""All that can be accepted; ``none`` is no algorithm."""


Secret = jwt.algorithms.AllowedPublicKeys | bytes
"""Keys that verify signatures."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key, and the algorithms that it is for."""

    value: Secret
    algorithms: tuple[str, ...]


class Keys:
    """The keys of one issuer; ``load`` before all else."""

    def __init__(
        self,
        secret: str = "",
        key_file: Path | None = None,
        jwks_file: Path | None = None,
        algorithms: Sequence[str] = (),
    ) -> None:
        self._secret = secret
        self._key_file = key_file
        self._jwks_file = jwks_file
        self._algorithms = frozenset(algorithms or ALGORITHMS)
        self._stamp: tuple[object, ...] | None = None
        self._keys: dict[str, Key] = {}
        self._renewed = False

    def load(self) -> None:
        """Read the files if they changed. Blocks; raises INVALID if their content is invalid."""
        stamp = tuple(_stamp(path) for path in (self._key_file, self._jwks_file))
        if stamp == self._stamp:
            return
        self._stamp = stamp
        keys: dict[str, Key] = {}
        if self._secret:
            keys[""] = _secret_key(self._secret.encode())
        if self._key_file is not None:
            keys[""] = _key_of(self._key_file)
        if self._jwks_file is not None:
            keys |= _key_set(self._jwks_file)
        if not any(self._algorithms.intersection(key.algorithms) for key in keys.values()):
            raise Error(
                Code.INVALID,
                "security.jwt: none of the keys is for one of the algorithms "
                f"{', '.join(sorted(self._algorithms))}",
            )
        self._keys, self._renewed = keys, True

    def look(self) -> None:
        """Read the files if they changed; log a warning if their content is invalid. Blocks."""
        try:
            self.load()
        except Error as error:
            log.error("the keys of tokens stay as they were: %s", error.message)  # noqa: TRY400

    def renewed(self) -> bool:
        """Log once that the keys have changed."""
        renewed, self._renewed = self._renewed, False
        return renewed

    def find(self, kid: object, algorithm: str) -> tuple[Secret, list[str]]:
        """Return the key that a token names, and the algorithms it may be used with.

        Raises UNAUTHENTICATED when there is none. A token that names no key, or a single key that
        has no name, is tried with the one key that there is.
        """
        key = self._keys.get(kid) if isinstance(kid, str) else None
        if key is None and len(self._keys) == 1:
            name, only = next(iter(self._keys.items()))
            key = only if kid is None or not name else None
        if key is None:
            raise Error(Code.UNAUTHENTICATED, "the token is not signed with a key known here")
        allowed = [name for name in key.algorithms if name in self._algorithms]
        if algorithm not in allowed:
            raise Error(
                Code.UNAUTHENTICATED, "the token is signed by an algorithm not accepted here"
            )
        return key.value, allowed


def _stamp(path: Path | None) -> tuple[int, int, int] | None:
    if path is None:
        return None
    try:
        facts = path.stat()
    except OSError as error:
        raise Error(Code.INVALID, f"{path}: cannot be read: {error.strerror}") from error
    return facts.st_mtime_ns, facts.st_size, facts.st_ino


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(TOKEN_KEYS_FILE_BYTES_MAX)
    except OSError as error:
        raise Error(Code.INVALID, f"{path}: cannot be read: {error.strerror}") from error


def _secret_key(secret: bytes) -> Key:
    if len(secret) < TOKEN_KEY_BYTES_MIN:
        raise Error(
            Code.INVALID,
            f"security.jwt: a secret key has at least {TOKEN_KEY_BYTES_MIN} bytes, this one has "
            f"{len(secret)}; make one with: openssl rand -base64 32",
        )
    return Key(secret, _fitting(secret))


def _fitting(secret: bytes) -> tuple[str, ...]:
    return tuple(name for name, least in _SECRET.items() if len(secret) >= least)


def _key_of(path: Path) -> Key:
    """Return the key in a file: a public key or certificate in PEM form, or else a secret."""
    data = _read(path).strip()
    if not data.startswith(b"-----BEGIN"):
        return _secret_key(data)
    try:
        certificate = data.startswith(b"-----BEGIN CERTIFICATE")
        read = load_pem_x509_certificate(data).public_key() if certificate else None
        value = read or load_pem_public_key(data)
    except ValueError as error:
        raise Error(Code.INVALID, f"{path}: is no public key in PEM form") from error
    algorithms = _algorithms_of(value, str(path))
    return Key(cast("Secret", value), algorithms)


def _algorithms_of(value: object, where: str) -> tuple[str, ...]:
    if isinstance(value, rsa.RSAPublicKey):
        return _RSA
    if isinstance(value, ec.EllipticCurvePublicKey) and value.curve.name in _CURVES:
        return (_CURVES[value.curve.name],)
    if isinstance(value, ed25519.Ed25519PublicKey | ed448.Ed448PublicKey):
        return ("EdDSA",)
    raise Error(Code.INVALID, f"{where}: such a key signs no tokens; take RSA, EC or Ed25519")


def _key_set(path: Path) -> dict[str, Key]:
    """Return the keys of a JWKS by their ``kid`` (RFC 7517), but for those of unknown kinds."""
    try:
        listed = json.loads(_read(path))["keys"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Error(Code.INVALID, f"{path}: should be {{'keys': [...]}} (RFC 7517)") from error
    keys: dict[str, Key] = {}
    for one in listed if isinstance(listed, list) else ():
        if not isinstance(one, dict) or one.get("use", "sig") != "sig":
            continue
        try:
            value = jwt.PyJWK.from_dict(one).key
            fitting = _of_set(one, value, str(path))
        except (jwt.PyJWTError, Error, ValueError, TypeError):  # a key of theirs, not for us
            continue
        keys[str(one.get("kid", ""))] = Key(value, fitting)
    return keys


def _of_set(facts: Mapping[str, object], value: object, where: str) -> tuple[str, ...]:
    fitting = _fitting(value) if isinstance(value, bytes) else _algorithms_of(value, where)
    said = facts.get("alg")
    return tuple(name for name in fitting if said in {None, name})
