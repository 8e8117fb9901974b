"""Pydantic models of the login routes."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Flag = Annotated[bool, BeforeValidator(bool)]
"""Any value that is true in Python."""
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class LoginRequest(BaseModel):
    """A user's name and password; without them the Authorization header counts."""

    model_config = ConfigDict(extra="forbid")

    user: str = ""
    password: str = ""
    cookie: Flag = Field(default=False, description="Give the token as a cookie too.")


class LogoutRequest(BaseModel):
    """What is to end."""

    model_config = ConfigDict(extra="forbid")

    everywhere: Flag = Field(default=False, description="End all that the user has signed in with.")


class CallerFacts(BaseModel):
    """Who a caller is, and what it may do."""

    user: str
    roles: list[str]
    grants: dict[str, bool]
    attributes: dict[str, object]
    until: Time | None = Field(description="When this ends; null: it does not.")


class Me(CallerFacts):
    """The caller, and what it may do of what it asked about."""

    reads: dict[str, bool] = Field(default_factory=dict)
    administers: dict[str, bool] = Field(default_factory=dict)


class SignedIn(CallerFacts):
    """A token for the caller."""

    token: str
    token_type: str
    expires_at: Time | None


class Ticket(BaseModel):
    """A ticket, which opens one stream."""

    ticket: str
    expires_at: Time | None
