"""Names and values that JavaScript, a URL or a shell would change, on the live page (O8).

Whoever may publish chooses topics and values; digits and bytes are those that were typed.
"""

import shlex
from urllib.parse import quote, unquote

import pytest
from pages import has, turn_to
from playwright.sync_api import expect

pytestmark = [pytest.mark.interop, pytest.mark.slow]
BYTES = {"content-type": "application/octet-stream"}
LONG = 9_007_199_254_740_993
"""2**53 + 1: a number that JavaScript has none for."""


def test_o8_a_number_keeps_the_digits_that_javascript_has_not(opened, server):
    """O8: neither the console nor the form of a record writes another number than is there."""
    page = opened("console")
    page.locator("#topic").fill("meter/1")
    page.locator("#payload").fill(f'{{"id": {LONG}, "cost": 1.10, "on": false}}')
    page.locator("#retain").check()
    page.get_by_role("button", name="Publish", exact=True).click()
    has(page, "main", "sent at")
    typed = f'{{"id": {LONG}, "cost": 1.10, "on": false}}'
    assert typed == server.request("GET", "/meter/1").text
    turn_to(page, "topics/meter%2F1")
    page.locator(".detail").get_by_role("button", name="Edit").click()
    area = page.get_by_role("dialog").get_by_label("Value")
    expect(area).to_have_value(typed)
    area.fill(typed.replace("false", "true"))
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert typed.replace("false", "true") == server.request("GET", "/meter/1").text


def test_o8_bytes_that_are_no_text_are_not_edited(opened, server):
    """O8: a form of text would write other bytes, with no word of it."""
    server.request(
        "PUT",
        "/meter/raw",
        content=b"\xff\x00",
        headers={"content-type": "application/octet-stream"},
    )
    page = opened("topics/meter%2Fraw")
    has(page, "[data-part=value]", "ff 00")
    page.locator(".detail").get_by_role("button", name="Edit").click()
    has(page, "#toasts", "2 bytes that are no text")


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
