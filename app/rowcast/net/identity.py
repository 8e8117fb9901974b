"""The server's identity: a certificate and its key, read from files into a TLS context.

It owns the error messages about invalid files, each under the name of its setting, so that a
mistyped path does not surface as an OpenSSL error. A context first makes a handshake with itself,
so that one that cannot is never listened with. Reading blocks; the caller chooses the thread. It
must not know which protocol is spoken, nor who the client turns out to be.
"""

import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.core.listener_limits import TLS_EXPIRY_WARNING_DAYS, TLS_FILE_BYTES_MAX
from rowcast.net.revocation import SETTING

_CERTIFICATE: Final = "-----BEGIN CERTIFICATE-----"
_PRIVATE_KEY: Final = "PRIVATE KEY-----"
_ENCRYPTED: Final = ("BEGIN ENCRYPTED PRIVATE KEY", "Proc-Type: 4,ENCRYPTED")
_NO_CHECK_TIME: Final = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which ``ssl`` has no name for: dates are judged here."""
_STEPS_MAX: Final = 8
"""Turns of a handshake in memory; it takes three."""


@dataclass(frozen=True, slots=True)
class Files:
    """Where the certificate and its key are; without ``private_key`` both are in one file."""

    certificate: Path
    private_key: Path | None = None
    password: str | None = None


@dataclass(frozen=True, slots=True)
class ClientCheck:
    """Which certificates clients may show: those signed by ``authority``."""

    authority: Path
    required: bool
    setting: str = "tls.certificateAuthority"
    """The setting that names the file."""
    revocation: Path | None = None
    """File of lists of certificates that were taken back; then each authority needs its own."""


def server_context(
    files: Files, check: ClientCheck | None = None, protocols: tuple[str, ...] = ()
) -> ssl.SSLContext:
    """Return a context for a door, read from the files now. Raises INVALID with the reason.

    TLS 1.2 and later, with Python's choice of ciphers: forward secret and authenticated ones.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    if protocols:
        context.set_alpn_protocols(list(protocols))
    _load_pair(context, files)
    if check is not None:
        _load_authority(context, check)
    return context


def _load_pair(context: ssl.SSLContext, files: Files) -> None:
    place = f"tls.certificate: {files.certificate}"
    key_place = f"tls.privateKey: {files.private_key or files.certificate}"
    text = _read(files.certificate, place)
    if _CERTIFICATE not in text:
        raise Error(Code.INVALID, f'{place}: holds no "{_CERTIFICATE}"; name a file in PEM form')
    key = _read(files.private_key, key_place) if files.private_key is not None else text
    if _PRIVATE_KEY not in key:
        hint = "name a file in PEM form" if files.private_key else "name it with tls.privateKey"
        raise Error(Code.INVALID, f"{key_place}: holds no private key; {hint}")
    if files.password is None and any(mark in key for mark in _ENCRYPTED):
        raise Error(Code.INVALID, f"{key_place}: is encrypted; set tls.privateKeyPassword too")
    try:  # an empty password rather than none: without one OpenSSL would ask on the terminal
        context.load_cert_chain(files.certificate, files.private_key, files.password or "")
    except ssl.SSLError as error:
        raise Error(Code.INVALID, _pair_problem(error, place, key_place, files)) from error
    except OSError as error:
        raise Error(Code.INVALID, f"{place}: cannot be read: {error.strerror}") from error


def _pair_problem(error: ssl.SSLError, place: str, key_place: str, files: Files) -> str:
    reason = str(error.reason or error)
    if reason == "KEY_VALUES_MISMATCH":
        return f"{key_place}: is not the key of {files.certificate}; they must be made together"
    if "TOO_SMALL" in reason or "TOO_WEAK" in reason:
        words = reason.lower().replace("_", " ")
        return f"{place}: {words}; use an RSA key of 2048 bits or more, or an elliptic one"
    if files.password is not None:
        return f"{key_place}: cannot be read; look at tls.privateKeyPassword"
    return f"{place}: certificate or key cannot be understood ({reason.lower().replace('_', ' ')})"


def _load_authority(context: ssl.SSLContext, check: ClientCheck) -> None:
    place = f"{check.setting}: {check.authority}"
    text = _read(check.authority, place)
    if _CERTIFICATE not in text:
        raise Error(Code.INVALID, f'{place}: holds no "{_CERTIFICATE}"; name a file in PEM form')
    try:
        context.load_verify_locations(cadata=text)
    except ssl.SSLError as error:
        reason = str(error.reason or error).lower().replace("_", " ")
        raise Error(Code.INVALID, f"{place}: cannot be understood ({reason})") from error
    if check.revocation is not None:
        try:
            context.load_verify_locations(cafile=check.revocation)
        except (OSError, ssl.SSLError) as error:
            raise Error(Code.INVALID, f"{SETTING}: {check.revocation}: {error}") from error
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    context.verify_mode = ssl.CERT_REQUIRED if check.required else ssl.CERT_OPTIONAL


def _read(path: Path, place: str) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(TLS_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise Error(Code.INVALID, f"{place}: cannot be read: {error.strerror}") from error
    if len(data) > TLS_FILE_BYTES_MAX:
        raise Error(Code.INVALID, f"{place}: is too large for a certificate or key")
    return data.decode("ascii", "ignore")  # comments may be in any language


# -- what it says ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Identity:
    """Names and validity of a server's certificate."""

    names: tuple[str, ...] = ()
    begins: float = 0.0
    ends: float = 0.0
    refusal: str = ""
    """Why a client that checks will not accept it; then nothing else is known."""

    def __str__(self) -> str:
        """Return it for a person."""
        if self.refusal:
            return "a certificate that clients refuse"
        return f"{', '.join(self.names) or 'no name'}, until {day_text(self.ends)}"

    def doubt(self, now: float) -> str:
        """Return why clients will refuse it, or soon; empty when nothing is wrong."""
        if self.refusal:
            return f"clients that check it will refuse it: {self.refusal}"
        if now < self.begins:
            return f"is not valid before {day_text(self.begins)}; look at the clocks"
        if now >= self.ends:
            return f"has expired on {day_text(self.ends)}; clients refuse it: renew it"
        days = int((self.ends - now) / 86_400)
        if days < TLS_EXPIRY_WARNING_DAYS:
            return f"expires in {days} days, on {day_text(self.ends)}; renew it"
        return ""


def day_text(seconds: float) -> str:
    """Return a moment as its day, for a person."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def identity_of(context: ssl.SSLContext, certificate: Path) -> Identity:
    """Return the identity that clients will see; makes a handshake with the context, in memory.

    Raises INVALID when no client could, whatever it trusts.
    """
    place = f"tls.certificate: {certificate}"
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
    client.load_verify_locations(cadata=_read(certificate, place))
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = context.wrap_bio(to_server, to_client, server_side=True)
    far = client.wrap_bio(to_client, to_server)
    try:
        _shake(far, near)
    except ssl.SSLCertVerificationError as error:
        return Identity(refusal=error.verify_message)
    except ssl.SSLError as error:
        why = str(error.reason or error).lower().replace("_", " ")
        raise Error(Code.INVALID, f"{place}: no client can use it: {why}") from error
    seen: Mapping[str, object] = far.getpeercert() or {}
    begins, ends = (ssl.cert_time_to_seconds(str(seen[key])) for key in ("notBefore", "notAfter"))
    return Identity(_names(seen), begins, ends)


def _shake(far: ssl.SSLObject, near: ssl.SSLObject) -> None:
    """Let both ends take their turns until the client is done; the server may want its proof."""
    for _ in range(_STEPS_MAX):
        with suppress(ssl.SSLWantReadError):
            far.do_handshake()
            return
        with suppress(ssl.SSLWantReadError):
            near.do_handshake()
    raise ssl.SSLError("the handshake does not end")


def _names(seen: Mapping[str, object]) -> tuple[str, ...]:
    entries = seen.get("subjectAltName", ())
    names = [value for _, value in entries] if isinstance(entries, tuple) else []
    subject = seen.get("subject", ())
    for part in subject if isinstance(subject, tuple) else ():
        names += [value for key, value in part if key == "commonName"]
    return tuple(dict.fromkeys(names))
