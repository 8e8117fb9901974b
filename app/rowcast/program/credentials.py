"""Credentials of client commands: in the URL, else in the environment, and in no file.

They are no settings: a file of settings is read by those who may not sign in. The Spark source,
which runs without this package's settings, takes the same variables.
"""

import os
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

VARIABLES: Final = {
    "user": "ROWCAST_USER",
    "password": "ROWCAST_PASSWORD",
    "token": "ROWCAST_TOKEN",
}


def credentials_for(url: str, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return ``user``, ``password`` and ``token`` from the environment; none if the URL has a user.

    ``env`` is for tests.
    """
    if urlsplit(url).username is not None:
        return {}
    env = os.environ if env is None else env
    return {name: env[variable] for name, variable in VARIABLES.items() if env.get(variable)}
