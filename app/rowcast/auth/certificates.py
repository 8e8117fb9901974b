"""Which user a client's certificate names, by the operator's rule ``mqtt.mTLS.user``.

It owns the reading of what ``getpeercert()`` returned. It must not know how the certificate was
shown or verified: TLS did that. A certificate that names nobody clearly names nobody.
"""

from collections.abc import Iterator, Mapping
from typing import Final

COMMON_NAME: Final = frozenset({"common name", "commonname", "cn"})
ALTERNATIVE_NAME: Final = frozenset({"subjectaltname", "subject alternative name", "san"})
ALTERNATIVE_KINDS: Final = frozenset({"DNS", "email", "URI", "IP Address"})
"""Kinds of alternative names that are text; a directory's name or a number of one's own is none."""


def user_of(certificate: Mapping[str, object] | None, rule: str) -> str:
    """Return the user that a verified certificate names; empty when it names none.

    ``rule`` is ``Common Name``, ``subjectAltName`` (the first one), empty for no user, or else
    the one user that every certificate stands for.
    """
    if not certificate or not rule:
        return ""
    said = rule.strip().lower()
    if said in COMMON_NAME:
        names = list(_common_names(certificate))
        return _clean(names[0]) if len(names) == 1 else ""  # of two, none is the user
    if said in ALTERNATIVE_NAME:
        return _clean(next(_alternative_names(certificate), ""))
    return rule


def _common_names(certificate: Mapping[str, object]) -> Iterator[str]:
    for part in _pairs(certificate.get("subject")):
        yield from (str(value) for kind, value in _pairs(part) if kind == "commonName")


def _alternative_names(certificate: Mapping[str, object]) -> Iterator[str]:
    """Give them in order, an empty one for each kind that has no text of its own.

    Of what it cannot read, ``ssl`` says ``<unsupported>``: all who show that would be one user.
    """
    for kind, value in _pairs(certificate.get("subjectAltName")):
        text = value if isinstance(value, str) and kind in ALTERNATIVE_KINDS else ""
        yield "" if text.startswith("<") else text


def _pairs(value: object) -> tuple[tuple[object, object], ...]:
    return value if isinstance(value, tuple) else ()


def _clean(name: str) -> str:
    """Return a name that a user can have: names that begin with ``$`` are the server's own."""
    return name if name.isprintable() and not name.startswith("$") else ""
