"""Passwords for one purpose each, from a secret that the nodes of a cluster share.

The secret itself is sent nowhere, and in no file that this program writes. The module does not know
who shares it, or what the passwords are for.
"""

import hmac


def derived(secret: str, purpose: str) -> str:
    """Return the password for a purpose, in hexadecimal (HMAC-SHA-256, RFC 2104).

    Who learns it learns neither the secret nor the password for another purpose.
    """
    return hmac.digest(secret.encode(), purpose.encode(), "sha256").hex()
