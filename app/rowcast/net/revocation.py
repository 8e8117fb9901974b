"""Certificate revocation lists (RFC 5280, 5; L4).

OpenSSL checks the file of lists at each handshake. When the file changes, this module finds the
open connections whose certificates are listed now. OCSP, where an authority is asked about each
certificate, is not supported.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509

from rowcast.core.errors import Code, Error
from rowcast.core.listener_limits import TLS_FILE_BYTES_MAX

SETTING: Final = "tls.certificateRevocationList"
_LIST: Final = "-----BEGIN X509 CRL-----"
_END: Final = "-----END X509 CRL-----"


@dataclass(frozen=True, slots=True)
class Revocations:
    """The revoked certificates of one file."""

    taken: frozenset[tuple[str, int]] = frozenset()
    """Authority and number of each certificate that was taken back."""
    ends: float | None = None
    """When the first list is over: then nobody with a certificate of its authority is let in."""

    def has(self, certificate: bytes) -> bool:
        """Whether a certificate, in DER form, is revoked."""
        shown = x509.load_der_x509_certificate(certificate)
        return (_name(shown.issuer), shown.serial_number) in self.taken


def read_revocations(path: Path) -> Revocations:
    """Read the lists of a file; blocks. Raises INVALID with the reason."""
    place = f"{SETTING}: {path}"
    try:
        with path.open("rb") as file:
            data = file.read(TLS_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise Error(Code.INVALID, f"{place}: cannot be read: {error.strerror}") from error
    if len(data) > TLS_FILE_BYTES_MAX:
        raise Error(Code.INVALID, f"{place}: is too large for lists of certificates")
    parts = data.decode("ascii", "ignore").split(_LIST)[1:]
    if not parts:
        raise Error(
            Code.INVALID,
            f'{place}: holds no "{_LIST}"; one in DER form becomes it by: openssl crl -inform DER '
            "-in list.crl -out list.pem",
        )
    try:
        lists = [
            x509.load_pem_x509_crl(f"{_LIST}{part.partition(_END)[0]}{_END}\n".encode())
            for part in parts
        ]
    except ValueError as error:
        raise Error(Code.INVALID, f"{place}: a list cannot be understood ({error})") from error
    taken = ((_name(known.issuer), item.serial_number) for known in lists for item in known)
    ends = [known.next_update_utc for known in lists]
    return Revocations(
        frozenset(taken), min((end.timestamp() for end in ends if end is not None), default=None)
    )


def _name(of: x509.Name) -> str:
    """Return a name to compare: programs spell the same one in several kinds of text."""
    return of.rfc4514_string().casefold()
