"""Names and passwords in one spelling: the same text typed elsewhere is the same (RFC 4013).

It is the profile of RFC 3454 for stored strings: what Unicode 3.2 does not assign is refused. It
knows text only; what a name may be beyond that is decided in ``users``.
"""

import stringprep
from unicodedata import ucd_3_2_0

from rowcast.core.errors import Code, Error

_PROHIBITED = (  # RFC 4013, 2.3
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
    stringprep.in_table_a1,  # RFC 4013, 2.5
)


def saslprep(text: str) -> str:
    """Return the prepared form of a text, to store and compare. Raises INVALID if it has none."""
    if text.isascii() and text.isprintable():
        return text
    mapped = "".join(
        " " if stringprep.in_table_c12(character) else character
        for character in text
        if not stringprep.in_table_b1(character)
    )
    prepared = ucd_3_2_0.normalize("NFKC", mapped)
    for character in prepared:
        if any(prohibits(character) for prohibits in _PROHIBITED):
            raise Error(
                Code.INVALID,
                f"the character U+{ord(character):04X} cannot be used in a name or password",
            )
    _check_direction(prepared)
    return prepared


def _check_direction(text: str) -> None:
    """Refuse a mixture of writing directions that could be read in two ways (RFC 3454, 6)."""
    if not any(stringprep.in_table_d1(character) for character in text):
        return
    ends = stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])
    if not ends or any(stringprep.in_table_d2(character) for character in text):
        raise Error(
            Code.INVALID,
            "a name or password written from right to left must begin and end so, and hold "
            "nothing that is written from left to right",
        )
