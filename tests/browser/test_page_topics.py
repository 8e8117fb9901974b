"""What the tree of topics has, and what the page is to somebody who may not see it (O8)."""

import pytest
from pages import has, turn_to
from playwright.sync_api import expect

from serving import Server, rowcast

pytestmark = [pytest.mark.interop, pytest.mark.slow]
PASSWORDS = {"ann": "secret-ann", "ben": "secret-ben", "eve": "secret-eve"}
ANN = ("ann", PASSWORDS["ann"])
OTHERS = "net::ERR_NETWORK_CHANGED"
"""Said when links of this machine come and go, as they do for clusters of other tests."""
GRANTS = {"ben": {"read": True, "write": False}, "eve": {"read": False, "write": False}}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server for names only: ann administers, ben may not read garage/#, eve nothing at all."""
    folder = tmp_path_factory.mktemp("server")
    ann = ("user", "add", "ann", "--role", "admin", "--data", folder / "data")
    assert 0 == rowcast(*ann, stdin=f"{PASSWORDS['ann']}\n").returncode
    with Server(folder, settings={"security.anonymous": "nobody"}) as running:
        for name, grants in GRANTS.items():
            user = {"password": PASSWORDS[name], "grants": grants}
            running.request("PUT", f"/$SYS/users/{name}", json=user, auth=ANN)
        denial = {"filter": "garage/#", "effect": "deny", "actions": ["read"], "users": ["ben"]}
        running.request("PUT", "/$SYS/rules/garage", json=denial, auth=ANN)
        for topic, value in (("alarm", "ring"), ("garage/door", {"n": 1}), ("Counter/c", {"n": 2})):
            running.request("POST", f"/{topic}?retain=false", json=value, auth=ANN)
        running.request("PUT", "/lamp", json="on", auth=ANN)
        yield running


def sign_in(page, name):
    page.locator("dialog #ask-user").fill(name)
    page.locator("dialog #ask-password").fill(PASSWORDS[name])
    page.get_by_role("dialog").get_by_role("button", name="Sign in").click()
    has(page, "#who", name)


def value_of(topic):
    return f'.tree [data-topic="{topic}"] .value'


def test_who_has_not_signed_in_is_asked_to(opened):
    """O8: no empty pages, no buttons that do nothing, nothing that looks like a fault."""
    page = opened("topics")
    said = []
    page.on("console", lambda one: OTHERS not in one.text and said.append(one.text))
    page.reload()
    page.locator("dialog.signin").wait_for()
    for place in ("topics", "records/Dog", "console", "clients"):
        turn_to(page, place)
        has(page, "main h1", "Sign in")
        expect(page.locator("main")).not_to_contain_text("No topics yet")
    expect(page.locator("nav")).to_be_hidden()
    has(page, "#state", "not signed in")
    page.keyboard.press("Escape")
    page.locator("main").get_by_role("button", name="Sign in").click()
    sign_in(page, "ann")
    has(page, "main h1", "Clients")
    assert [] == said


def test_topics_at_which_nothing_is_retained_are_in_the_tree(opened, server):
    """O8: also after a restart, for those who may read them; and they are found by name."""
    page = opened("topics")
    sign_in(page, "ann")
    has(page, value_of("alarm"), "ring")
    has(page, value_of("Counter/c"), '{"n":2}')
    page.get_by_placeholder("Find").fill("door")
    expect(page.locator(".tree .line")).to_have_count(1)
    has(page, value_of("garage/door"), '{"n":1}')
    page.locator('[data-topic="garage/door"]').click()
    has(page, "[data-part=value]", "nothing is retained here")
    has(page, ".detail .log", '{"n":1}')
    page.get_by_placeholder("Find").fill("nowhere")
    has(page, "main", "No topic has “nowhere” in its name")
    server.stop()
    server.start()
    page.get_by_placeholder("Find").fill("")
    page.reload()
    has(page, value_of("alarm"), "ring")


def test_who_may_read_less_is_shown_less(opened):
    """M9: a topic that one may not read is not there."""
    page = opened("topics")
    sign_in(page, "ben")
    has(page, value_of("alarm"), "ring")
    has(page, value_of("lamp"), "on")
    expect(page.locator('[data-topic="garage"]')).to_have_count(0)
    page.get_by_label("Topic filter").fill("garage/#")
    page.get_by_label("Topic filter").press("Enter")
    has(page, ".blank", "ben may not read 'garage/#'")


def test_who_may_read_nothing_is_told_so(opened):
    page = opened("topics")
    said = []
    page.on("console", lambda one: said.append(one.text))
    sign_in(page, "eve")
    has(page, "main", "eve may not read any topic")
    for place in ("records/Dog", "schema"):
        turn_to(page, place)
        has(page, "main", "eve may not read any topic")
    assert [] == said
