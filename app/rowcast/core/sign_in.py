"""Credentials of programs that sign in at a server: in its URL, else in the environment.

Commands and Spark programs have this one rule. Nothing here reads the environment.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

CREDENTIALS: Final = {
    "user": "ROWCAST_USER",
    "password": "ROWCAST_PASSWORD",
    "token": "ROWCAST_TOKEN",
}
"""The environment variables, by the names of what they give."""


def credentials_for(url: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Return ``user``, ``password`` and ``token`` of the environment; none if the URL has a user.

    The URL may lack its scheme.
    """
    if urlsplit(url if "://" in url else f"//{url}").username is not None:
        return {}
    return {name: variables[key] for name, key in CREDENTIALS.items() if variables.get(key)}
