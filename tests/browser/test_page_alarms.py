"""Alarms on the live page: what is not normal, what may be done, what happened (V5, O8)."""

import pytest
from pages import has, turn_to
from playwright.sync_api import expect

from serving import Server, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.slow]
ANN, OPS, BEN = ("ann", "secret-ann"), ("ops", "secret-ops"), ("ben", "secret-ben")
SCHEMA = """
type Sensor @table @export
  @alarm(name: "hot", when: "temp=gt=80", clear: "temp=lt=75", severity: "critical")
  @alarm(name: "flat", when: "battery=lt=10", severity: "warning")
{ id: ID @primaryKey, temp: Float, battery: Float }
"""
NOBODY = "http://127.0.0.1:9/"  # the discard port, at which nothing listens


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    settings = {"alarms.webhook": NOBODY, "alarms.webhook_secret": "hunter2"}
    with Server(tmp_path_factory.mktemp("server"), schema=SCHEMA, settings=settings) as running:
        yield running


@pytest.fixture
def calm(server):
    """End each alarm: none of another test is left."""
    auth = ANN if server.request("GET", "/Sensor/").status_code == 401 else None
    for sensor in server.request("GET", "/Sensor/", auth=auth).json():
        server.request("DELETE", f"/Sensor/{sensor['id']}", auth=auth)
    for row in server.request("GET", "/$SYS/alarms/", auth=auth).json():
        server.request("PATCH", f"/$SYS/alarms/{row['id']}", json={"acknowledged": True}, auth=auth)
    wait_until(
        lambda: [] == server.request("GET", "/$SYS/alarms/", auth=auth).json(), "all is well"
    )


def row(name):
    return f'[data-row="{name}"]'


def write(server, sensor, auth=None, **values):
    assert server.request("PUT", f"/Sensor/{sensor}", json=values, auth=auth).is_success


@pytest.mark.usefixtures("calm")
def test_an_alarm_is_shown_as_it_is_raised_acknowledged_and_cleared(opened, server):
    """V5: over the connection that the page has, the most urgent first; each change is listed."""
    page = opened("alarms")
    has(page, "main", "Every alarm is normal")
    write(server, 1, battery=5)
    has(page, row("flat/Sensor/1"), "raised")
    write(server, 2, temp=90)
    has(page, row("hot/Sensor/2"), "critical")
    has(page, "tbody tr:first-child", "hot")
    page.get_by_role("button", name="Acknowledge hot/Sensor/2").click()
    has(page, row("hot/Sensor/2"), "acknowledged")
    assert "acknowledged" == server.request("GET", "/$SYS/alarms/hot/Sensor/2").json()["state"]
    has(page, "tbody tr:first-child", "flat")  # it is what nobody has taken note of
    has(page, ".log li:first-child", "acknowledged")
    write(server, 2, temp=20)
    has(page, row("hot/Sensor/2"), "cleared")
    has(page, ".log li:first-child", "cleared")
    page.get_by_role("button", name="Acknowledge hot/Sensor/2").click()
    expect(page.locator(row("hot/Sensor/2"))).to_have_count(0)


@pytest.mark.usefixtures("calm")
def test_an_alarm_is_shelved_for_a_time_that_is_typed(opened, server):
    """V5: what is no time is refused in the dialog, and nothing typed is lost."""
    write(server, 3, temp=90)
    page = opened("alarms")
    page.get_by_role("button", name="Shelve hot/Sensor/3").click()
    page.locator("dialog #ask-time").fill("soon")
    page.get_by_role("dialog").get_by_role("button", name="Shelve").click()
    has(page, "dialog .badtext", "shelved_for")
    page.locator("dialog #ask-time").fill("2h")
    page.get_by_role("dialog").get_by_role("button", name="Shelve").click()
    has(page, row("hot/Sensor/3"), "shelved")
    page.get_by_role("button", name="Unshelve hot/Sensor/3").click()
    has(page, row("hot/Sensor/3"), "raised")


@pytest.mark.usefixtures("calm")
def test_a_notification_that_was_not_taken_is_shown_with_the_reason(opened, server):
    """V5: an operator sees that nobody was called."""
    write(server, 4, temp=90)
    page = opened("alarms")
    has(page, "main", "Notifications not taken yet")
    has(page, "main", "alarm.raised")
    has(page, ".below", "refused")


@pytest.mark.usefixtures("calm")
def test_buttons_are_for_who_may_administer_alarms(opened, server):
    """V5, P5: an operator by a rule has them; who may only read is offered none."""
    write(server, 5, temp=90)
    ann = {"password": ANN[1], "roles": ["admin"], "setup_code": server.setup_code}
    assert server.request("PUT", "/$SYS/users/ann", json=ann).is_success
    for name, secret in (OPS, BEN):
        user = {"password": secret, "grants": {"read": True, "write": False}}
        assert server.request("PUT", f"/$SYS/users/{name}", json=user, auth=ANN).is_success
    rules = {
        "all": {"filter": "#", "effect": "allow", "actions": ["read"]},
        "alarms": {"filter": "$SYS/alarms/#", "effect": "allow", "actions": ["read"]},
        "own": {"filter": "$alarms/#", "effect": "allow", "actions": ["read"]},
        "ops": {
            "filter": "$SYS/alarms/#",
            "effect": "allow",
            "actions": ["administer"],
            "users": ["ops"],
        },
    }
    for name, rule in rules.items():
        said = server.request("PUT", f"/$SYS/rules/{name}", json=rule, auth=ANN)
        assert said.is_success, said.text
    for (name, secret), buttons in ((BEN, 0), (OPS, 1)):
        page = opened("alarms")
        page.locator("#who").click()
        page.locator("dialog #ask-user").fill(name)
        page.locator("dialog #ask-password").fill(secret)
        page.get_by_role("dialog").get_by_role("button", name="Sign in").click()
        has(page, "#who", name)
        turn_to(page, "alarms")
        has(page, row("hot/Sensor/5"), "raised")
        expect(page.get_by_role("button", name="Acknowledge")).to_have_count(buttons)
        expect(page.get_by_text("Notifications not taken yet")).to_have_count(0)
