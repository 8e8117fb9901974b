"""The setup code: a one-time secret that creates the first administrator (P3).

Without users every caller on this machine may do everything, including pages in its browser and
other programs. Creating the first user, which is permanent, therefore needs a secret that is
printed to the standard error of the server only. It changes at each start, and is invalid as soon
as there is a user.
"""

import hmac
import secrets
from base64 import b32encode
from collections.abc import Callable

from rowcast.core.authentication_limits import SETUP_CODE_BYTES, SETUP_CODE_GROUP_CHARS
from rowcast.core.callers import ADMIN
from rowcast.core.errors import Code, Error


class SetupCode:
    """One code; ``random`` gives so many unpredictable bytes."""

    def __init__(self, random: Callable[[int], bytes] = secrets.token_bytes) -> None:
        self._plain = b32encode(random(SETUP_CODE_BYTES)).decode().rstrip("=").lower()

    def __str__(self) -> str:
        size = SETUP_CODE_GROUP_CHARS
        starts = range(0, len(self._plain), size)
        return "-".join(self._plain[start : start + size] for start in starts)

    def check(self, shown: object) -> None:
        """Raise DENIED for anything but the code; hyphens, blanks and capitals do not matter."""
        text = "".join(filter(str.isalnum, shown)).lower() if isinstance(shown, str) else ""
        if not hmac.compare_digest(text.encode(), self._plain.encode()):
            raise Error(
                Code.DENIED,
                "the first user is made with the setup code that the server printed when it "
                "started, as the member 'setup_code' beside 'password', or on its machine: "
                f"rowcast user add NAME --role {ADMIN}",
            )
