"""The parts of /ui that are for administrators, and what the page is to everybody else (O8)."""

import pytest
from pages import has, turn_to
from playwright.sync_api import expect

from serving import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.slow]
ANN = ("ann", "secret-ann")
BEN = ("ben", "secret-ben")


def fill(page, **fields):
    """Fill in fields of the dialog that is open."""
    for name, text in fields.items():
        page.locator(f"dialog #ask-{name}").fill(text)


def press(page, name):
    """Press a button of the dialog that is open, and wait until that is closed."""
    page.get_by_role("dialog").get_by_role("button", name=name, exact=True).click()
    expect(page.locator("dialog")).to_have_count(0)


def sign_in(page, user, password):
    fill(page, user=user, password=password)
    page.get_by_role("dialog").get_by_role("button", name="Sign in").click()


def people(server):
    """Have ann, an administrator, and ben, who may only read."""
    if not server.request("GET", "/$SYS/users/ann", auth=ANN).is_success:
        server.request(
            "PUT",
            "/$SYS/users/ann",
            json={"password": ANN[1], "roles": ["admin"], "setup_code": server.setup_code},
        )
    ben = {"password": BEN[1], "grants": {"read": True, "write": False}}
    assert server.request("PUT", "/$SYS/users/ben", json=ben, auth=ANN).is_success


def test_users_and_roles_are_made_here_and_hold(opened, server):
    """O8, M11: the first user, who then signs in, a role, and others; live."""
    page = opened("users")
    has(page, "main", "Nobody has to sign in yet")
    page.get_by_role("button", name="Make the first user").click()
    fill(page, name="ann", password="secret-ann", setup_code="guessed")
    page.get_by_role("dialog").get_by_role("button", name="Make and sign in").click()
    has(page, "dialog [role=alert]", "the setup code that the server printed")
    fill(page, setup_code=server.setup_code)
    press(page, "Make and sign in")
    has(page, "#who", "ann")  # signed in, with a cookie that no script reads
    assert "" == page.evaluate("() => document.cookie")

    page.get_by_role("button", name="New role").click()
    fill(page, name="guest")
    page.get_by_role("dialog").get_by_text("read", exact=True).click()
    press(page, "Save")
    has(page, "[data-row=guest]", "read")
    page.get_by_role("button", name="New user").click()
    fill(page, name="ben", password="secret-ben", attributes='{"sites": ["north"')
    page.get_by_role("dialog").get_by_role("button", name="Make").click()
    has(page, "dialog [role=alert]", "no JSON")
    fill(page, attributes='{"sites": ["north"]}')
    page.get_by_role("dialog").get_by_role("button", name="guest").click()
    press(page, "Make")
    has(page, "[data-row=ben]", "guest")
    assert 200 == server.request("GET", "/Dog/", auth=BEN).status_code

    page.get_by_role("button", name="Disable ben").click()
    press(page, "Disable")
    has(page, "[data-row=ben]", "disabled")
    assert 403 == server.request("GET", "/Dog/", auth=BEN).status_code
    page.get_by_role("button", name="Enable ben").click()
    has(page, "[data-row=ben]", "active")
    server.request("PATCH", "/$SYS/users/ben", json={"roles": ["guest", "vet"]}, auth=ANN)
    has(page, "[data-row=ben]", "vet")  # told by the server, not asked for
    for n in range(12):
        server.request("PUT", f"/$SYS/users/x{n}", json={"password": None}, auth=ANN)
    page.get_by_role("searchbox", name="Find a row").fill("X11")
    expect(page.locator("[data-row^=x]")).to_have_count(1)
    page.get_by_role("searchbox", name="Find a row").fill("")
    page.get_by_role("button", name="Rights ben").click()
    has(page, "h1", "Rules")
    assert "ben" == page.get_by_label("User").input_value()
    page.locator("#who").click()
    has(page, "#who", "Sign in")
    expect(page.locator("nav a[data-page=users]")).to_be_hidden()


def test_a_rule_is_made_and_explained(opened, server):
    """O8, M9: "may ben publish at home/1/lock?", answered with what decides it."""
    people(server)
    page = opened("rules")
    page.locator("#who").click()
    sign_in(page, *ANN)
    page.get_by_role("button", name="New rule").click()
    fill(page, id="no-locks", filter="home/+/lock", users="ben")
    page.locator("dialog #ask-effect").select_option("deny")
    page.get_by_role("dialog").get_by_text("publish", exact=True).click()
    press(page, "Make")
    has(page, '[data-row="no-locks"]', "deny")
    page.get_by_label("User").fill("ben")
    page.get_by_label("Action").select_option("publish")
    page.get_by_label("Topic").fill("home/1/lock")
    page.get_by_label("Topic").press("Enter")
    has(page, "[data-part=answer]", "ben may not publish home/1/lock: ")
    has(page, "[data-part=answer]", "no-locks")
    page.get_by_label("User").fill("nobody")
    page.get_by_label("User").press("Enter")
    has(page, "[data-part=answer]", "there is no user 'nobody'")
    page.get_by_role("button", name="Remove no-locks").click()
    press(page, "Remove")
    has(page, "main", "No rules yet")

    turn_to(page, "schema")
    has(page, "[data-table=Dog]", "@primaryKey")


def test_who_may_less_is_offered_less_and_told_why(opened, server):
    """O8: no page of its own shows what rights withhold; what is open ends with its user."""
    people(server)
    server.request("PUT", "/home/lamp", json="on", auth=ANN)
    page = opened("clients")
    page.locator("#who").click()
    sign_in(page, "ben", "wrong")
    page.locator("dialog .badtext:not(:empty)").wait_for()
    fill(page, password=BEN[1])
    press(page, "Sign in")
    has(page, "#who", "ben")
    expect(page.locator("nav a[data-page=users]")).to_be_hidden()
    turn_to(page, "users")
    has(page, "main", "ben may not administer here")
    turn_to(page, "schema")
    has(page, "main", "shown to administrators")
    turn_to(page, "records/Dog")
    has(page, "main", "You may only read")
    expect(page.get_by_role("button", name="New record")).to_have_count(0)
    turn_to(page, "messages")
    has(page, '[data-row="home/lamp"]', "on")
    expect(page.get_by_role("button", name="Clear home/lamp")).to_have_count(0)
    server.request("PUT", "/$SYS/rules/x", json=DENIAL, auth=ANN)
    turn_to(page, "clients")
    has(page, "main", "This is not shown to you")
    page.reload()
    has(page, "main", "ben may not read $SYS/sessions/")
    expect(page.locator("nav a[data-page=clients]")).to_be_hidden()
    server.request("DELETE", "/$SYS/rules/x", auth=ANN)
    turn_to(page, "topics")
    has(page, "#state", "live")
    assert "snapshot" == page.evaluate(BY_TICKET, list(BEN))
    server.request("DELETE", "/$SYS/users/ben", auth=ANN)
    page.locator("dialog.signin").wait_for()
    wait_until(lambda: server.request("GET", "/", auth=BEN).status_code == 401, "ben is gone")


BY_TICKET = """async ([user, password]) => {
    const { Rowcast } = await import('/ui/rowcast.js')
    const rows = new Rowcast(location.origin, { user, password, transport: 'ws' })
    return new Promise((done) => rows.subscribe('home/lamp', ({ kind }) => done(kind),
        { onState: (state, problem) => problem && done(problem.message) }))
}"""
"""A page cannot send a header with a WebSocket: its client shows a ticket, good for one use."""
DENIAL = {"filter": "other/#", "effect": "deny", "actions": ["read"]}
