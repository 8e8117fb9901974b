"""Certificates for tests: authorities that nobody else knows, and files made of them."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

PAST = datetime(2020, 1, 1, tzinfo=UTC)
LONG_PAST = datetime(2019, 1, 1, tzinfo=UTC)


class Authority:
    """One authority, and the files of a server's certificate that it signed."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.ca = trustme.CA(organization_name=name)
        self.file = folder / f"{name}.pem"
        self.ca.cert_pem.write_to_path(self.file)

    def issue(self, *names: str, **options: object) -> trustme.LeafCert:
        """Return a certificate that is valid."""
        return self.ca.issue_cert(*names, **options)

    def expired(self, *names: str, **options: object) -> trustme.LeafCert:
        """Return a certificate whose time is over."""
        return self.ca.issue_cert(*names, not_before=LONG_PAST, not_after=PAST, **options)

    def revoked(self, *leaves: trustme.LeafCert, until: datetime | None = None) -> bytes:
        """Return the list of certificates that it has taken back, in PEM form."""
        key = load_pem_private_key(self.ca.private_key_pem.bytes(), None)
        authority = x509.load_pem_x509_certificate(self.ca.cert_pem.bytes())
        now = datetime.now(UTC)
        made = x509.CertificateRevocationListBuilder(authority.subject).last_update(LONG_PAST)
        made = made.next_update(until or now + timedelta(days=1))
        for leaf in leaves:
            serial = x509.load_pem_x509_certificate(leaf.cert_chain_pems[0].bytes()).serial_number
            taken = x509.RevokedCertificateBuilder(serial, LONG_PAST).build()
            made = made.add_revoked_certificate(taken)
        return made.sign(key, SHA256()).public_bytes(Encoding.PEM)

    def client(self, shown: trustme.LeafCert | None = None) -> ssl.SSLContext:
        """Return the context of a client that trusts this authority, and may show a certificate."""
        context = ssl.create_default_context(cafile=self.file)
        if shown is not None:
            shown.configure_cert(context)
        return context


class ServerFiles:
    """The files of a server's certificate; they can be written again."""

    def __init__(self, folder: Path, leaf: trustme.LeafCert) -> None:
        self.certificate, self.key = folder / "server.pem", folder / "server.key"
        self.write(leaf)

    def write(self, leaf: trustme.LeafCert) -> None:
        """Replace both, as a program for renewal does."""
        for path, pems in (
            (self.key, [leaf.private_key_pem]),
            (self.certificate, leaf.cert_chain_pems),
        ):
            fresh = path.with_suffix(".fresh")
            fresh.write_bytes(b"".join(pem.bytes() for pem in pems))
            fresh.replace(path)


class RawTls:
    """A client's TLS whose bytes the test carries: any pieces, any order of events."""

    def __init__(self, context: ssl.SSLContext, name: str = "localhost") -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)

    def begin(self) -> bytes:
        """Return the first flight, ClientHello."""
        return self.answer(b"") or b""

    def answer(self, data: bytes) -> bytes | None:
        """Take bytes of the server's; return what the handshake says, None when it is done."""
        self._incoming.write(data)
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return self._outgoing.read()
        return None

    def alert(self) -> bytes:
        """Return what is told to the server after a failure."""
        return self._outgoing.read()

    def seal(self, data: bytes) -> bytes:
        """Return bytes encrypted, after what the handshake has left to say."""
        self.tls.write(data)
        return self._outgoing.read()

    def open(self, data: bytes) -> bytes:
        """Take bytes of the server's; return what they say."""
        self._incoming.write(data)
        said = b""
        try:
            while piece := self.tls.read():
                said += piece
        except ssl.SSLWantReadError:
            return said
        return said


async def shake(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, raw: RawTls) -> None:
    """Shake hands over a plain connection; the last flight is left for ``seal``."""
    said: bytes | None = raw.begin()
    while said is not None:
        writer.write(said)
        said = raw.answer(await reader.read(65_536))
