"""Certificates and keys from files: what is accepted, and what is said of others (D2)."""

import ssl
import subprocess

import pytest

from rowcast.core.errors import Code, Error
from rowcast.net.identity import ClientCheck, Files, Identity, identity_of, server_context
from securing import LONG_PAST, PAST, Authority, ServerFiles

NOW = 1_800_000_000.0
DAY = 86_400.0


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def files(tmp_path, authority):
    made = ServerFiles(tmp_path, authority.issue("localhost", common_name="server"))
    return Files(made.certificate, made.key)


def complaint(files, check=None):
    with pytest.raises(Error) as caught:
        server_context(files, check)
    assert Code.INVALID == caught.value.code
    return caught.value.message


def test_a_context_speaks_tls_1_2_and_later(files):
    context = server_context(files)
    assert (ssl.TLSVersion.TLSv1_2, ssl.CERT_NONE) == (context.minimum_version, context.verify_mode)


def test_certificate_and_key_may_be_in_one_file(tmp_path, authority):
    both = tmp_path / "both.pem"
    authority.issue("localhost").private_key_and_cert_chain_pem.write_to_path(both)
    context = server_context(Files(both))
    assert ("localhost",) == identity_of(context, both).names


def test_what_the_certificate_says_is_known(files):
    identity = identity_of(server_context(files), files.certificate)
    assert (("localhost", "server"), "") == (identity.names, identity.doubt(NOW))
    assert str(identity).startswith("localhost, server, until ")


def test_it_is_known_though_clients_must_show_one(files, authority):
    """The handshake in memory has no certificate to show."""
    check = ClientCheck(authority.file, required=True)
    context = server_context(files, check)
    assert ssl.CERT_REQUIRED == context.verify_mode
    assert ("localhost", "server") == identity_of(context, files.certificate).names


@pytest.mark.parametrize("required", [True, False])
def test_clients_may_or_must_show_a_certificate(files, authority, required):
    """L3."""
    context = server_context(files, ClientCheck(authority.file, required))
    wanted = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    assert (wanted, 1) == (context.verify_mode, context.cert_store_stats()["x509"])


def test_comments_in_any_language_do_no_harm(files):
    text = files.certificate.read_bytes()
    files.certificate.write_bytes("# Größe\n".encode() + text)
    assert "server" in identity_of(server_context(files), files.certificate).names


# -- files that cannot be used ---------------------------------------------------------------------


def test_a_missing_file_is_named_with_its_setting(tmp_path, files):
    absent = tmp_path / "absent.pem"
    found = f"{absent}: cannot be read: No such file or directory"
    assert f"tls.certificate: {found}" == complaint(Files(absent, files.private_key))
    assert f"tls.privateKey: {found}" == complaint(Files(files.certificate, absent))
    check = ClientCheck(absent, required=False)
    assert f"tls.certificateAuthority: {found}" == complaint(files, check)


def test_a_folder_is_no_file(tmp_path, files):
    assert "Is a directory" in complaint(Files(tmp_path, files.private_key))


def test_the_key_of_another_certificate(tmp_path, files, authority):
    other = tmp_path / "other.key"
    authority.issue("localhost").private_key_pem.write_to_path(other)
    said = complaint(Files(files.certificate, other))
    assert f"tls.privateKey: {other}: is not the key of {files.certificate}" in said


def test_files_that_were_exchanged(files):
    said = complaint(Files(files.private_key, files.certificate))
    assert said.startswith("tls.certificate: ")
    assert 'holds no "-----BEGIN CERTIFICATE-----"' in said


def test_a_certificate_without_its_key(files):
    said = complaint(Files(files.certificate))
    assert "holds no private key; name it with tls.privateKey" in said


@pytest.mark.parametrize("which", ["certificate", "private_key"])
def test_nonsense_between_the_right_lines(files, which):
    path = getattr(files, which)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], "bm9uc2Vuc2U=", lines[-1]]))
    assert "cannot be understood" in complaint(files)


def test_a_file_without_end_is_not_read(files):
    with files.certificate.open("ab") as file:
        file.truncate(5 * 1024 * 1024)
    assert "too large" in complaint(files)


def test_a_weak_key_is_told_in_words(tmp_path):
    key, certificate = self_signed(tmp_path, "rsa:1024")
    assert "use an RSA key of 2048 bits or more" in complaint(Files(certificate, key))


def test_an_authority_that_is_none(tmp_path, files):
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    check = ClientCheck(empty, required=True, setting="mqtt.mTLS.certificateAuthority")
    assert complaint(files, check).startswith(f"mqtt.mTLS.certificateAuthority: {empty}: holds no")
    empty.write_text("-----BEGIN CERTIFICATE-----\nbm8=\n-----END CERTIFICATE-----\n")
    assert "cannot be understood" in complaint(files, check)


def encrypted(files, password):
    """Encrypt the key with openssl, as people do."""
    path = files.private_key.with_name("encrypted.key")
    command = ["openssl", "pkey", "-in", files.private_key, "-aes256", "-out", path]
    subprocess.run([*command, "-passout", f"pass:{password}"], check=True, capture_output=True)
    return path


def test_an_encrypted_key(files):
    """Without a password nothing asks for one on the terminal."""
    key = encrypted(files, "secret")
    assert "is encrypted; set tls.privateKeyPassword" in complaint(Files(files.certificate, key))
    for wrong in ("", "secre"):
        said = complaint(Files(files.certificate, key, wrong))
        assert "look at tls.privateKeyPassword" in said
        assert "secre" not in said
    assert server_context(Files(files.certificate, key, "secret"))


# -- dates and purposes ----------------------------------------------------------------------------


def test_an_expired_certificate_can_be_used_but_is_doubted(tmp_path, authority):
    made = ServerFiles(tmp_path, authority.expired("localhost"))
    identity = identity_of(server_context(Files(made.certificate, made.key)), made.certificate)
    assert (LONG_PAST.timestamp(), PAST.timestamp()) == (identity.begins, identity.ends)
    assert "has expired on 2020-01-01; clients refuse it: renew it" == identity.doubt(NOW)


@pytest.mark.parametrize(
    ("begins", "ends", "said"),
    [
        (-DAY, DAY * 14, ""),
        (-DAY, DAY * 13.5, "expires in 13 days"),
        (-DAY, 0, "has expired"),
        (DAY, DAY * 365, "is not valid before"),
    ],
)
def test_dates_are_judged(begins, ends, said):
    doubt = Identity(("a",), NOW + begins, NOW + ends).doubt(NOW)
    assert doubt.startswith(said) if said else doubt == ""


def self_signed(folder, algorithm="rsa:2048", *options):
    """Return the files of a key and a certificate that vouches for itself."""
    key, certificate = folder / "own.key", folder / "own.pem"
    command = ["openssl", "req", "-x509", "-newkey", algorithm, "-nodes", "-subj", "/CN=c"]
    command += [*options, "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return key, certificate


@pytest.mark.heavy
def test_a_certificate_for_clients_only_is_doubted(tmp_path):
    """Its purpose is not that of a server; clients that check refuse it."""
    key, certificate = self_signed(tmp_path, "rsa:2048", "-addext", "extendedKeyUsage=clientAuth")
    identity = identity_of(server_context(Files(certificate, key)), certificate)
    assert "clients that check it will refuse it" in identity.doubt(NOW)
    assert "a certificate that clients refuse" == str(identity)
