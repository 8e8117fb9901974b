"""The user that a certificate names (L3)."""

import pytest

from rowcast.auth.certificates import user_of


def certificate(*common_names, alternative=()):
    """Return what getpeercert() does."""
    subject = ((("organizationName", "a firm"),), *((("commonName", x),) for x in common_names))
    return {"subject": subject, "subjectAltName": alternative, "version": 3}


ANN = certificate("ann", alternative=(("email", "ann@a.example"), ("DNS", "a.example")))


@pytest.mark.parametrize(
    ("rule", "user"),
    [
        ("Common Name", "ann"),
        ("commonName", "ann"),
        ("CN", "ann"),
        ("subjectAltName", "ann@a.example"),
        ("SAN", "ann@a.example"),
        ("devices", "devices"),
        ("", ""),
    ],
)
def test_the_rule_decides(rule, user):
    assert user == user_of(ANN, rule)


@pytest.mark.parametrize("rule", ["CN", "SAN", "devices", ""])
@pytest.mark.parametrize("shown", [None, {}], ids=["without TLS", "not asked for"])
def test_without_a_certificate_there_is_no_user(shown, rule):
    assert "" == user_of(shown, rule)


@pytest.mark.parametrize(
    "names", [(), ("ann", "bob"), ("",), ("$server",), ("an\0n",), ("a\nb",)], ids=repr
)
def test_a_common_name_that_is_no_user(names):
    assert "" == user_of(certificate(*names), "CN")


@pytest.mark.parametrize("alternative", [(), (("DNS", ""),), (("URI", "$sys"),)], ids=repr)
def test_an_alternative_name_that_is_no_user(alternative):
    assert "" == user_of(certificate("ann", alternative=alternative), "SAN")


def test_two_common_names_in_one_part_of_the_subject():
    subject = ((("commonName", "ann"), ("commonName", "bob")),)
    assert "" == user_of({"subject": subject}, "CN")
