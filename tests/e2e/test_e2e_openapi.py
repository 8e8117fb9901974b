"""Requests made from the OpenAPI document, against the real program: no server error (O1, O4)."""

from collections import Counter

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings

from serving import Server

EXAMPLES = 6
"""Requests for each operation: with some eighty operations that is ten seconds."""
ANSWER_SECONDS = 10


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server for the tests of this file, whose bodies are bounded as an operator may."""
    folder = tmp_path_factory.mktemp("openapi")
    with Server(folder, settings={"http.max_body_bytes": 100_000}) as running:
        yield running


def test_no_request_that_the_document_allows_is_a_server_error(server):
    """Whatever is generated, valid or nearly so: an answer, never a 500, and no traceback."""
    document = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    answers: Counter[int] = Counter()
    failed: list[str] = []

    for found in document.get_all_operations():
        operation = found.ok()

        @given(case=operation.as_strategy())
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def ask(case):
            response = case.call(timeout=ANSWER_SECONDS)
            answers[response.status_code] += 1
            if response.status_code >= 500:
                failed.append(f"{response.status_code}: {case.as_curl_command()}: {response.text}")

        ask()

    assert [] == failed
    assert answers[200] and answers[201] and answers[400]
    assert "Traceback" not in server.log
    assert 200 == server.request("GET", "/health/ready").status_code
