"""Settings of authentication: anonymous callers, users, and tokens of trusted issuers."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from rowcast.auth.keys import ALGORITHMS, Keys
from rowcast.auth.tokens import USER_PREFIX, ForeignIssuer
from rowcast.core.authentication_limits import TOKEN_LEEWAY_SECONDS, TOKEN_SECONDS
from rowcast.core.callers import Grants
from rowcast.settings.sections import Count, PlaceOrNone, Seconds, Section


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
        description="Secret with which tokens are signed (HS256); set it in the environment.",
    )
    key_file: PlaceOrNone = Field(
        default=None,
        description="File with the key instead: a public key or certificate (PEM), or a secret.",
    )
    jwks_file: PlaceOrNone = Field(default=None, description="File with the issuer's keys (JWKS).")
    issuer: str = Field(
        default="", description="Required issuer (`iss`) of tokens; empty accepts any."
    )
    audience: str = Field(
        default="", description="Required audience (`aud`) of tokens; empty accepts any."
    )
    algorithms: tuple[Annotated[str, AfterValidator(_algorithm)], ...] = Field(
        default=(), description="Accepted signature algorithms; empty: all that fit the keys."
    )
    leeway_seconds: Count = Field(
        default=TOKEN_LEEWAY_SECONDS,
        description="Tolerated difference between the clocks of issuer and server, in seconds.",
    )
    user_claim: str = Field(
        default="sub", description="Claim that names the user; dots separate the parts of its path."
    )
    user_prefix: Annotated[str, AfterValidator(_prefix)] = Field(
        default=USER_PREFIX,
        description="Prefix of the user's name here. It contains a colon, so that the name is "
        "never that of a local user; without `security.jwt.issuer` the token's issuer follows it. "
        "Set it to the empty string to let the issuer name local users.",
    )
    roles_claim: str = Field(
        default="roles", description="Claim that lists the roles, such as `realm_access.roles`."
    )
    role_names: Mapping[str, str] = Field(
        default={},
        description="Maps roles of the token to roles here, `{ops: admin}`; others are ignored. "
        "Empty takes all names unchanged, except `admin`.",
    )
    read: bool = Field(default=True, description="Whether users with a token and no role may read.")
    write: bool = Field(
        default=True, description="Whether users with a token and no role may write."
    )

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
        default="loopback",
        description="From where anonymous callers are accepted: `loopback` (this machine), "
        "`everywhere` or `nobody`.",
    )
    users: str = Field(
        default="",
        description="File of users and roles; by default users.json in the data directory.",
    )
    token_seconds: Seconds = Field(
        default=TOKEN_SECONDS,
        description="Lifetime of a token from `POST /$SYS/login`, in seconds.",
    )
    jwt: Jwt = Jwt()
