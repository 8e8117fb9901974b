"""Whether modules are compiled: of the standard library, of a dependency and of our own."""

import pytest

from rowcast.core.compiled import CODE, code_of


@pytest.mark.parametrize(
    ("module", "expected"),
    [("json.decoder", "interpreted"), ("orjson.orjson", "compiled"), ("no_such", "interpreted")],
)
def test_how_a_module_runs(module, expected):
    assert expected == code_of(module)


def test_what_is_told_is_how_events_run():
    assert code_of("rowcast.core.events") == CODE
