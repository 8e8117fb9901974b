"""Certificates that a stranger could bring, or have signed, through real TLS (L3)."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from amounts import amount
from rowcast.auth.certificates import user_of
from securing import Authority, RawTls

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
RULES = ("CN", "SAN")
PARTS = ("commonName", "organizationName", "DNS", "email", "URI", "IP Address", "othername", "x")


def issue(authority, name=(), names=(), begins=-DAY, ends=DAY, signer=None):
    """Return the PEM of a certificate with its key, signed by an authority or by another key."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.load_pem_x509_certificate(authority.ca.cert_pem.bytes())
    signing = serialization.load_pem_private_key(authority.ca.private_key_pem.bytes(), None)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, cn) for cn in name]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW + begins)
        .not_valid_after(NOW + ends)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=not name)
    made = builder.sign(signer or signing, hashes.SHA256())
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return made.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, *form
    )


def verified(authority, folder, pem):
    """Return what the server's TLS makes of a client's certificate; raises ssl.SSLError."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue("localhost").configure_cert(server)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(authority.file)
    client = authority.client()
    file = folder / "client.pem"
    file.write_bytes(pem)
    client.load_cert_chain(file)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    answering = server.wrap_bio(incoming, outgoing, server_side=True)
    raw = RawTls(client)
    said = raw.begin()
    for _ in range(4):
        incoming.write(said or raw.alert())
        try:
            answering.do_handshake()
        except ssl.SSLWantReadError:
            said = raw.answer(outgoing.read())
            continue
        return answering.getpeercert()
    raise AssertionError("the handshake did not end")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


DNS, EMAIL = x509.DNSName, x509.RFC822Name
ROOT = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "root")])
KERBEROS = x509.ObjectIdentifier("1.3.6.1.4.1.311.20.2.3")
NAMED = {
    "plain": (("ann",), (), "ann", ""),
    "wildcard": (("*",), (DNS("*.example"),), "*", "*.example"),
    "wildcards of MQTT": (("+/#",), (), "+/#", ""),
    "no subject": ((), (DNS("ann.example"),), "", "ann.example"),
    "the other name is not the common one": (("root",), (EMAIL("ann@a"),), "root", "ann@a"),
    "first of many": ((), tuple(DNS(f"n{n}.example") for n in range(2_000)), "", "n0.example"),
    "a directory's name": ((), (x509.DirectoryName(ROOT), EMAIL("ann@a")), "", ""),
    "a name of another kind": ((), (x509.OtherName(KERBEROS, b"\x0c\x03ann"),), "", ""),
    "two common names": (("ann", "root"), (), "", ""),
    "nul": (("ann\0root",), (), "", ""),
    "line": (("ann\nroot",), (), "", ""),
    "the server's": (("$server",), (), "", ""),
    "right to left": (("\u202eann",), (), "", ""),
    "half as wide": (("\uff41nn",), (), "\uff41nn", ""),
    "a slash": (("../root",), (), "../root", ""),
}


@pytest.mark.parametrize("kind", NAMED)
def test_l3_whom_a_certificate_names_and_no_other(authority, tmp_path, kind):
    name, names, common, alternative = NAMED[kind]
    shown = verified(authority, tmp_path, issue(authority, name, names))
    assert [common, alternative] == [user_of(shown, rule) for rule in RULES]


REFUSED = {
    "expired": {"begins": -3 * DAY, "ends": -2 * DAY},
    "not valid yet": {"begins": DAY, "ends": 2 * DAY},
    "signed by nobody": {"signer": ec.generate_private_key(ec.SECP256R1())},
}


@pytest.mark.parametrize("kind", REFUSED)
def test_l3_who_is_not_verified_is_nobody(authority, tmp_path, kind):
    with pytest.raises(ssl.SSLError):
        verified(authority, tmp_path, issue(authority, ("ann",), **REFUSED[kind]))


KIND = st.sampled_from(PARTS)
TEXT = st.text(max_size=5)
NAMES = st.tuples(KIND, TEXT | st.sampled_from(["<unsupported>", ((("commonName", "root"),),)]))
SHAPES = {
    "subject": st.lists(st.tuples(KIND, TEXT), max_size=2).map(tuple),
    "subjectAltName": NAMES,
}


@pytest.mark.slow
@given(st.fixed_dictionaries({}, optional={k: st.lists(v, max_size=3) for k, v in SHAPES.items()}))
@settings(max_examples=amount(long=100, short=25))
def test_anything_that_tls_could_say_names_a_user_or_nobody(certificate):
    said = {name: tuple(value) for name, value in certificate.items()}
    for rule in RULES:
        name = user_of(said, rule)
        assert name.isprintable()
        assert not name.startswith("$")
        assert rule == "CN" or not name.startswith(("((", "<"))
