"""Error codes as reason codes of MQTT 5, for each packet that refuses something.

The three packets allow different reason codes (``mqtt/reasons.py``), so there are three tables; a
new error code needs a row in that of PUBACK, and in the others where their default does not fit.
``doors/http/messages/problems.py`` is the same for HTTP and WebSocket.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rowcast.core.errors import Code
from rowcast.mqtt.reasons import Reason

PUBACK_REASONS: Final[Mapping[Code, Reason]] = MappingProxyType(
    {
        Code.INVALID: Reason.PAYLOAD_FORMAT_INVALID,
        Code.UNPROCESSABLE: Reason.PAYLOAD_FORMAT_INVALID,
        Code.UNAUTHENTICATED: Reason.NOT_AUTHORIZED,
        Code.DENIED: Reason.NOT_AUTHORIZED,
        Code.NOT_FOUND: Reason.TOPIC_NAME_INVALID,
        Code.NOT_ALLOWED: Reason.TOPIC_NAME_INVALID,
        Code.CONFLICT: Reason.QUOTA_EXCEEDED,
        Code.PRECONDITION: Reason.QUOTA_EXCEEDED,
        Code.GONE: Reason.UNSPECIFIED_ERROR,
        Code.TOO_LARGE: Reason.QUOTA_EXCEEDED,
        Code.UNSUPPORTED: Reason.PAYLOAD_FORMAT_INVALID,
        Code.NOT_ACCEPTABLE: Reason.IMPLEMENTATION_SPECIFIC_ERROR,
        Code.BUSY: Reason.QUOTA_EXCEEDED,
        Code.INTERNAL: Reason.UNSPECIFIED_ERROR,
    }
)
"""Error codes as reasons of a PUBACK or PUBREC (MQTT 5, 3.4.2.1), and of a refused will."""

SUBACK_REASONS: Final[Mapping[Code, Reason]] = MappingProxyType(
    {
        Code.DENIED: Reason.NOT_AUTHORIZED,
        Code.UNAUTHENTICATED: Reason.NOT_AUTHORIZED,
        Code.BUSY: Reason.QUOTA_EXCEEDED,
        Code.INTERNAL: Reason.UNSPECIFIED_ERROR,
    }
)
"""Error codes as reasons of a SUBACK; others are 0x83, because the filter is valid."""

CONNACK_REASONS: Final[Mapping[Code, Reason]] = MappingProxyType(
    {
        Code.INVALID: Reason.IMPLEMENTATION_SPECIFIC_ERROR,
        Code.UNAUTHENTICATED: Reason.BAD_USER_NAME_OR_PASSWORD,
        Code.DENIED: Reason.NOT_AUTHORIZED,
        Code.BUSY: Reason.SERVER_BUSY,
        Code.UNSUPPORTED: Reason.BAD_AUTHENTICATION_METHOD,
    }
)
"""Error codes as reasons of a CONNACK; others are 0x80."""
