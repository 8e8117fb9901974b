"""What is said of a server that does not answer (``rowcast_client.problem``)."""

import httpx
import pytest

from rowcast_client.problem import nobody


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("[SSL: CERTIFICATE_VERIFY_FAILED] unable to get local issuer", "ROWCAST_AUTHORITY"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] Hostname mismatch", "a name that the certificate has"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] IP address mismatch", "a name that the certificate has"),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number", "begin it with http:"),
    ],
    ids=["authority", "name", "address", "no TLS"],
)
def test_a_failure_of_tls_is_not_told_as_a_server_that_is_not_there(reason, said):
    """O9: who starts another server because of it looks in the wrong place."""
    message = str(nobody("https://ann:pencil@localhost:9927", httpx.ConnectError(reason)))
    assert reason in message
    assert said in message
    assert "https://localhost:9927" in message
    assert "rowcast serve" not in message
