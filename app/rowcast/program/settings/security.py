"""Settings of authentication: anonymous callers, users, and tokens of trusted issuers."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from rowcast.auth.keys import ALGORITHMS, Keys
from rowcast.auth.tokens import USER_PREFIX, ForeignIssuer
from rowcast.core.callers import Grants
from rowcast.core.entry_limits import TOKEN_LEEWAY_SECONDS, TOKEN_SECONDS
from rowcast.kernel.settings import Count, PlaceOrNone, Seconds, Section


def _algorithm(name: str) -> str:
    if name not in ALGORITHMS:
        raise ValueError(f"should be one of {', '.join(ALGORITHMS)}")
    return name


def _prefix(text: str) -> str:
    if text and (":" not in text or text.startswith("$")):
        raise ValueError(
            "should hold a colon, as `corp:`, which no user's name here has; or be empty, if the "
            "issuer's names are those of this server's users"
        )
    return text


class Jwt(Section):
    """Tokens that others made; they are taken when one of the three keys is set."""

    key: str = Field(
        default="",
        repr=False,
        description="Secret that tokens are signed with (HS256); better in the environment.",
    )
    key_file: PlaceOrNone = Field(
        default=None,
        description="File of the key instead: a public key or certificate in PEM form, or a "
        "secret.",
    )
    jwks_file: PlaceOrNone = Field(
        default=None, description="File of the issuer's keys as a set (JWKS)."
    )
    issuer: str = Field(default="", description="Issuer (`iss`) of tokens; empty is any.")
    audience: str = Field(
        default="", description="What `aud` has to name; empty does not look at it."
    )
    algorithms: tuple[Annotated[str, AfterValidator(_algorithm)], ...] = Field(
        default=(), description="Algorithms that are accepted; empty is all that fit the keys."
    )
    leeway_seconds: Count = Field(
        default=TOKEN_LEEWAY_SECONDS, description="How far the issuer's clock may be off."
    )
    user_claim: str = Field(
        default="sub", description="Claim that names the user; parts are separated by dots."
    )
    user_prefix: Annotated[str, AfterValidator(_prefix)] = Field(
        default=USER_PREFIX,
        description="What stands before that name here, with a colon, so that it is no user of "
        "this server; then, without `issuer`, the token's. Empty where the issuer is trusted to "
        "name this server's users.",
    )
    roles_claim: str = Field(
        default="roles", description="Claim that lists the roles, likewise: `realm_access.roles`."
    )
    role_names: Mapping[str, str] = Field(
        default={},
        description="Which of these roles is which role here: `{ops: admin}`; others are left "
        "out. Empty takes all names as they are, but for `admin`.",
    )
    read: bool = Field(default=True, description="Whether their users may read without a role.")
    write: bool = Field(default=True, description="Whether they may write, likewise.")

    @property
    def grants(self) -> Grants:
        """The grants of a token's user without a role."""
        return Grants(self.read, self.write)

    def foreign(self) -> ForeignIssuer | None:
        """Return the trusted issuer; None when no key is set. Raises INVALID."""
        if not self.key and self.key_file is None and self.jwks_file is None:
            return None
        keys = Keys(self.key, self.key_file, self.jwks_file, self.algorithms)
        keys.load()
        return ForeignIssuer(
            keys,
            self.issuer,
            self.audience,
            self.leeway_seconds,
            self.user_claim,
            self.roles_claim,
            self.role_names,
            self.user_prefix,
        )


class Security(Section):
    """Who may come in."""

    anonymous: Literal["loopback", "everywhere", "nobody"] = Field(
        default="loopback", description="From where callers without a name are accepted."
    )
    users: str = Field(
        default="",
        description="File of users and roles; empty for users.json in the data directory.",
    )
    token_seconds: Seconds = Field(
        default=TOKEN_SECONDS, description="How long a token from `POST /$SYS/login` holds."
    )
    jwt: Jwt = Jwt()
