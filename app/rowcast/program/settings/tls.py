"""Settings of TLS: the server's certificate, and client certificates."""

from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from rowcast.settings.sections import PlaceOrNone, Section, nothing


def _nobody(value: object) -> object:
    return "" if nothing(value) is None else value


class Tls(Section):
    """The certificate of the secure ports; files are read again when they change."""

    certificate: PlaceOrNone = Field(
        default=None, description="File with the server's certificate and its chain (PEM)."
    )
    private_key: PlaceOrNone = Field(
        default=None,
        alias="privateKey",
        description="File with the private key (PEM), if it is not in the certificate's file.",
    )
    private_key_password: str | None = Field(
        default=None,
        alias="privateKeyPassword",
        repr=False,
        description="Password of an encrypted private key; set it in the environment.",
    )
    certificate_authority: PlaceOrNone = Field(
        default=None,
        alias="certificateAuthority",
        description="File with the authorities that sign client certificates (PEM).",
    )
    revocation_list: PlaceOrNone = Field(
        default=None,
        alias="certificateRevocationList",
        description="File with certificate revocation lists (CRL, PEM), one for each authority.",
    )


class MutualTls(Section):
    """Clients that show certificates, on the secure port of MQTT; Harper's names."""

    enabled: bool = Field(
        default=False,
        description="Whether MQTT clients may present certificates. `mqtt.mTLS: true` means the "
        "same, and any other setting of this section implies it.",
    )
    required: bool = Field(
        default=False, description="Whether MQTT clients over TLS must present a certificate."
    )
    user: Annotated[str, BeforeValidator(_nobody)] = Field(
        default="Common Name",
        description="Which user a certificate names: its `Common Name`, its first "
        "`subjectAltName`, `none`, or a fixed name for all.",
    )
    certificate_authority: PlaceOrNone = Field(
        default=None,
        alias="certificateAuthority",
        description="File with the authorities that sign client certificates; by default "
        "`tls.certificateAuthority`.",
    )

    @model_validator(mode="before")
    @classmethod
    def _enabled_by_details(cls, given: object) -> object:
        return {"enabled": True} | given if isinstance(given, dict) and given else given
