"""What was refused, on the page of clients (O8, P5)."""

import pytest
from pages import has, turn_to
from playwright.sync_api import expect

from talking import Mqtt

pytestmark = [pytest.mark.interop, pytest.mark.slow]
ANN = ("ann", "secret-ann")
BEN = ("ben", "secret-ben")
PART = "[data-part=refused]"
HELD = """
    const asked = window.fetch
    const answered = new Promise((done) => { window.answer = done })
    window.fetch = async (...what) => {
        if (String(what[0]).includes('/$SYS/me')) await answered
        return asked(...what)
    }
"""
FED = """async (count) => {
    const { refusedSection } = await import('/ui/refused.js')
    const { node } = refusedSection({ reads: () => true, told() {}, rows: {
        subscribe(filter, hear) {
            for (let n = 0; n < count; n++) {
                const at = '2026-01-31T12:00:00Z'
                hear({ value: { at, action: 'write', reason: `fault ${n}` } })
            }
            return { close() {} }
        } } })
    node.dataset.part = 'fed'
    document.getElementById('main').append(node)
}"""


def publish_wrongly(server, client_id, topic):
    """Publish what is no value of its table, as a client that hears nothing of it."""
    with Mqtt(server.mqtt_port, version=4, client_id=client_id) as client:
        client.publish(topic, b"hello", retain=True)


def test_who_published_what_does_not_fit_is_listed_as_it_happens(opened, server):
    """O8, P5: the newest first: client, topic, reason; until then what the list is for."""
    page = opened("clients")
    has(page, PART, "Nothing was refused")
    has(page, "#state", "live")
    publish_wrongly(server, "sensor-1", "Dog/1")
    has(page, f"{PART} li", "sensor-1 at Dog/1")
    has(page, f"{PART} li", "write")
    publish_wrongly(server, "sensor-2", "Dog/2")
    has(page, f"{PART} li:first-child", "sensor-2 at Dog/2")
    expect(page.locator(f"{PART} li time")).to_have_count(2)
    page.reload()  # what was before is there, too
    has(page, f"{PART} li:last-child", "sensor-1 at Dog/1")
    has(page, f"{PART} li:last-child .body", "JSON")


def test_the_newest_hundred_are_kept(opened):
    """O8: however much is refused, the page stays small."""
    page = opened("clients")
    has(page, "#state", "live")
    page.evaluate(FED, 150)
    has(page, "[data-part=fed] li:first-child", "fault 149")
    expect(page.locator("[data-part=fed] li")).to_have_count(100)


def test_nobody_can_sign_in_before_the_page_knows_who_is_here(opened):
    """O8: a click that comes before is not lost, for the button cannot be clicked."""
    page = opened("topics", script=HELD)
    expect(page.locator("#who")).to_be_disabled()
    page.evaluate("answer()")
    expect(page.locator("#who")).to_be_enabled()
    page.locator("#who").click()
    expect(page.locator("dialog #ask-user")).to_be_visible()


def test_it_is_not_offered_to_who_may_not_read_it(opened, server):
    """O8: only administrators are told of it."""
    ann = {"password": ANN[1], "roles": ["admin"], "setup_code": server.setup_code}
    ben = {"password": BEN[1], "grants": {"read": True, "write": False}}
    assert server.request("PUT", "/$SYS/users/ann", json=ann).is_success
    assert server.request("PUT", "/$SYS/users/ben", json=ben, auth=ANN).is_success
    page = opened("topics")
    page.locator("#who").click()
    page.locator("dialog #ask-user").fill(BEN[0])
    page.locator("dialog #ask-password").fill(BEN[1])
    page.get_by_role("dialog").get_by_role("button", name="Sign in").click()
    has(page, "#who", "ben")
    turn_to(page, "clients")
    has(page, "main", "What happened")
    expect(page.locator(PART)).to_have_count(0)
