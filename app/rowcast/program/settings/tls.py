"""Settings of TLS: the server's certificate, and client certificates."""

from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from rowcast.kernel.settings import PlaceOrNone, Section, nothing


def _nobody(value: object) -> object:
    return "" if nothing(value) is None else value


class Tls(Section):
    """The certificate of the secure ports; files are read again when they change."""

    certificate: PlaceOrNone = Field(
        default=None, description="File of the certificate and its chain, in PEM form."
    )
    private_key: PlaceOrNone = Field(
        default=None,
        alias="privateKey",
        description="File of its private key; none when that is in the same file.",
    )
    private_key_password: str | None = Field(
        default=None,
        alias="privateKeyPassword",
        repr=False,
        description="Password of an encrypted private key; better in the environment.",
    )
    certificate_authority: PlaceOrNone = Field(
        default=None,
        alias="certificateAuthority",
        description="File of the authorities that sign clients' certificates.",
    )
    revocation_list: PlaceOrNone = Field(
        default=None,
        alias="certificateRevocationList",
        description="File of lists (CRL) of clients' certificates that were taken back, in PEM "
        "form: one for each authority.",
    )


class MutualTls(Section):
    """Clients that show certificates, on the secure port of MQTT; Harper's names."""

    enabled: bool = Field(
        default=False,
        description="Whether clients may show certificates; `mqtt.mTLS: true` says the same, and "
        "so does any setting below.",
    )
    required: bool = Field(default=False, description="Whether they must.")
    user: Annotated[str, BeforeValidator(_nobody)] = Field(
        default="Common Name",
        description="User that a certificate names: its `Common Name`, its first `subjectAltName`, "
        "`none`, or else this name for all.",
    )
    certificate_authority: PlaceOrNone = Field(
        default=None,
        alias="certificateAuthority",
        description="Who signs clients' certificates; none for `tls.certificateAuthority`.",
    )

    @model_validator(mode="before")
    @classmethod
    def _enabled_by_details(cls, given: object) -> object:
        return {"enabled": True} | given if isinstance(given, dict) and given else given
