"""Names and values that JavaScript, a URL or a shell would change, on the live page (O8).

Whoever may publish chooses topics and values; digits and bytes are those that were typed.
"""

import shlex
from urllib.parse import quote, unquote

import pytest
from pages import has, turn_to
from playwright.sync_api import expect

pytestmark = [pytest.mark.interop, pytest.mark.slow]
def test_o8_names_and_values_of_others_break_nothing(opened, server):
    """O8: whoever may publish chooses them: a command is no other one, and the tree is drawn."""
    name = "shelf/a'|reboot|'b"
    server.request("PUT", f"/{quote(name)}", json={"$bytes": "%%%", "x": 1})
    page = opened(f"topics/{quote(name, safe='')}")
    has(page, ".tree", '{"$bytes":"%%%","x":1}')
    has(page, ".detail", "?last=10'")
    commands = page.locator(".detail .copy pre").all_inner_texts()
    assert [True, True] == [name in shlex.split(unquote(one))[-1] for one in commands]
    turn_to(page, "%zz")
    has(page, "h1", "Topics")
    turn_to(page, "constructor")
    has(page, "h1", "Topics")
