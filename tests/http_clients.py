"""HTTP clients for servers on this machine, which are asked without TLS.

httpx reads the certificates of all known authorities for each client that it makes, some 40 ms of
computing; these clients trust no authority at all.
"""

import ssl
from typing import Any

import httpx

TRUSTING_NOBODY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def http_client(**options: Any) -> httpx.AsyncClient:
    """Return a client for a test in an event loop."""
    return httpx.AsyncClient(verify=TRUSTING_NOBODY, trust_env=False, **options)


def blocking_client(**options: Any) -> httpx.Client:
    """Return a client for a test without an event loop."""
    return httpx.Client(verify=TRUSTING_NOBODY, trust_env=False, **options)
