"""Limits of computed attributes: each with its unit and reason."""

from typing import Final

EXPRESSION_SIZE_MAX: Final = 64
"""Operations of one expression, those of the computed attributes that it uses included: it is
evaluated for each record that a reader gets or a condition examines."""

COMPUTED_TEXT_CHARS_MAX: Final = 65_536
"""Characters of a computed text; a longer one is null. Without a limit, an expression that joins a
text with itself would make a record 64 times as large as what was written."""
