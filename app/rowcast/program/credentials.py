"""Credentials of client commands: in the URL, else in the environment, and in no file.

They are no settings: a file of settings is read by those who may not sign in.
"""

import os

from rowcast.core.sign_in import credentials_for


def credentials(url: str) -> dict[str, str]:
    """Return ``user``, ``password`` and ``token`` with which a command signs in at a URL."""
    return credentials_for(url, os.environ)
