"""Credentials of client commands: in the URL, else in the environment, and in no file.

They are no settings: a file of settings is read by those who may not sign in.
"""

import os
from typing import Final

from rowcast.core.sign_in import CREDENTIALS, credentials_for

PREFIX: Final = "ROWCAST_"
"""The prefix of environment variables that are settings, unless they are credentials."""


def credentials(url: str) -> dict[str, str]:
    """Return ``user``, ``password`` and ``token`` with which a command signs in at a URL."""
    return credentials_for(url, os.environ)


def has_settings() -> bool:
    """Whether any variable of the environment is a setting, or a mistake of one."""
    others = CREDENTIALS.values()
    return any(name.startswith(PREFIX) and name not in others for name in os.environ)
