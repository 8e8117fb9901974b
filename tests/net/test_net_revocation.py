"""Certificates that were taken back (L4)."""

import ssl

import pytest

from rowcast.core.errors import Error
from rowcast.net.certificates import Certificates, DoorTls
from rowcast.net.identity import ClientCheck, Files
from rowcast.net.revocation import read_revocations
from securing import PAST, Authority, ServerFiles


class Room:
    """A door that clients show certificates at, and two clients."""

    def __init__(self, folder):
        self.authority, self.other = Authority(folder), Authority(folder, "other")
        files = ServerFiles(folder, self.authority.issue("localhost"))
        both = folder / "both.pem"
        both.write_bytes(self.authority.file.read_bytes() + self.other.file.read_bytes())
        self.list = folder / "lists.pem"
        self.ann, self.ben = self.authority.issue("ann"), self.authority.issue("ben")
        self.eve = self.other.issue("eve")
        check = ClientCheck(both, required=True, revocation=self.list)
        self.made = Certificates(
            Files(files.certificate, files.key), {"mqtt": DoorTls((), check)}, lambda: 2e9
        )

    def take_back(self, *mine, theirs=(), **facts):
        lists = self.authority.revoked(*mine, **facts) + self.other.revoked(*theirs, **facts)
        self.list.write_bytes(b"comment\n" + lists)

    def refusal(self, leaf):
        """Return why a handshake with a certificate is refused; empty when it is not."""
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        near = self.made.context("mqtt").wrap_bio(to_server, to_client, server_side=True)
        far = self.authority.client(leaf).wrap_bio(
            to_client, to_server, server_hostname="localhost"
        )
        for _ in range(4):
            for end in (far, near):
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue
                except ssl.SSLCertVerificationError as error:
                    return error.verify_message
        return ""

    def has(self, leaf):
        der = ssl.PEM_cert_to_DER_cert(leaf.cert_chain_pems[0].bytes().decode())
        return self.made.revocations.has(der)


@pytest.fixture
def room(tmp_path):
    return Room(tmp_path)


def test_l4_a_certificate_on_the_list_of_its_authority_is_refused(room):
    room.take_back(room.ann)
    room.made.load()
    assert "certificate revoked" == room.refusal(room.ann)
    assert ["", ""] == [room.refusal(room.ben), room.refusal(room.eve)]
    assert [True, False, False] == [room.has(leaf) for leaf in (room.ann, room.ben, room.eve)]
    room.take_back(room.ben, theirs=(room.eve,))
    room.made.renew()
    assert "" == room.refusal(room.ann)
    assert [False, True, True] == [room.has(leaf) for leaf in (room.ann, room.ben, room.eve)]
    assert "certificate revoked" == room.refusal(room.eve)


def test_l4_a_list_that_is_over_lets_nobody_in_and_is_told_of(room, caplog):
    room.take_back(until=PAST)
    room.made.load()
    assert "CRL has expired" == room.refusal(room.ben)
    room.made.renew()
    told = [said for item in caplog.records if "is over since 2020" in (said := item.getMessage())]
    assert 1 == len(told)


def test_l4_a_number_is_of_one_authority_only(room):
    room.take_back(theirs=(room.ann,))  # theirs has the same number, and is somebody else's
    room.made.load()
    assert ("", False) == (room.refusal(room.ann), room.has(room.ann))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x30\x82\x01", "openssl crl -inform DER"),
        (b"", "holds no"),
        (b"-----BEGIN X509 CRL-----\nMIIB\n-----END X509 CRL-----\n", "cannot be understood"),
        (b"x" * 5_000_000, "too large"),
        (None, "cannot be read"),
    ],
)
def test_l4_a_file_that_is_none_is_told_and_the_lists_stay(room, data, said, caplog):
    room.take_back(room.ann)
    room.made.load()
    room.list.unlink()
    if data is not None:
        room.list.write_bytes(data)
    room.made.renew()
    assert f"tls.certificateRevocationList: {room.list}: " in caplog.text
    assert said in caplog.text
    assert (True, "certificate revoked") == (room.has(room.ann), room.refusal(room.ann))
    with pytest.raises(Error, match=r"tls\.certificateRevocationList"):
        read_revocations(room.list)
