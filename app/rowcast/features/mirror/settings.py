"""Settings of the mirror of tables."""

from typing import Annotated, Final

from pydantic import AfterValidator, Field

from rowcast.settings.sections import Section

DRIVER: Final = "postgresql+psycopg://"
PLAIN: Final = ("postgresql://", "postgres://")


def _url(text: str) -> str:
    if text and not text.startswith(PLAIN):
        raise ValueError("is the address of a database, postgresql://user:password@host/database")
    if text.partition("://")[2].count("@") > 1:  # else errors would name a part of the password
        raise ValueError("has more than one @: write that of a password as %40")
    return text


class MirrorSection(Section):
    """Copies of declared tables in PostgreSQL, for who wants SQL there."""

    url: Annotated[str, AfterValidator(_url)] = Field(
        default="",
        repr=False,
        description="Database in which declared tables have copies that follow the log, "
        "`postgresql://user:password@host/database`; set it in the environment. Empty: none.",
    )
    db_schema: Annotated[str, Field(pattern="^[a-z_][a-z0-9_]{0,62}$")] = Field(
        default="rowcast",
        alias="schema",
        description="Schema of that database in which the copies are.",
    )

    @property
    def address(self) -> str:
        """The address with its driver; empty without a mirror."""
        for plain in PLAIN:
            if self.url.startswith(plain):
                return DRIVER + self.url.removeprefix(plain)
        return ""


SECTIONS: Final = {"mirror": MirrorSection}
