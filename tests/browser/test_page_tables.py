"""The tables of the live page: what a row says can be read, and what it offers be reached (O8).

Each is looked at where it was once too narrow: on a desk of 1280 pixels, and on a phone.
"""

import re
import socket
from contextlib import contextmanager
from datetime import UTC, datetime
from urllib.parse import quote

import pytest
from pages import DESK, PHONE, has, turn_to
from playwright.sync_api import expect

from serving import Server, wait_until
from talking import Mqtt

pytestmark = [pytest.mark.interop, pytest.mark.slow]
SCHEMA = """
type Boat @table @export {
  name: ID @primaryKey
  captain: Captain
  length: Float
  seen: Date
  notes: String
  label: String @computed(from: "notes")
  created: Date @createdTime
  updated: Date @updatedTime
}
type Captain { name: String! }
type Hourly @table @export
  @rollup(of: "Boat", by: ["name"], time: "seen", every: "1h", values: {length: ["max"]})
"""
LONG_JSON = {"readings": [{"sensor": n, "text": "}" * 20} for n in range(20)]}
COVERED = """(tables) => tables.flatMap((table) => {
    const rows = [...table.querySelectorAll('td.end')]
    const overlap = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
        Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1
    return rows.flatMap((end) => [...table.querySelectorAll('td:not(.end)')].filter((cell) =>
        overlap(end.getBoundingClientRect(), cell.getBoundingClientRect()))
        .map((cell) => `${cell.dataset.label}: ${cell.textContent}`))
})"""
"""The cells that are behind the buttons of a row."""
BEYOND = """(tables) => tables.flatMap((table) => [...table.querySelectorAll('td')].filter((cell) =>
    cell.getBoundingClientRect().right > table.parentNode.getBoundingClientRect().right + 1)
    .map((cell) => cell.textContent))"""
"""The cells that are beyond the edge of their box."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("server"), schema=SCHEMA) as running:
        boat = {"captain": {"name": "Joe"}, "length": 6.904679999999999, "notes": "n" * 100}
        for name in ("ark", "bark"):
            body = boat | {"seen": "2026-11-21T10:11:12.345Z"}
            running.request("PUT", f"/Boat/{name}", json=body)
        yield running


@contextmanager
def bridge_that_is_down(server):
    """Have a bridge to a port at which nobody listens, and has not for as long as this lasts."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        plan = {"host": "127.0.0.1", "port": nobody.getsockname()[1], "out": [{"filter": "Boat/#"}]}
        server.request("PUT", "/$SYS/brokers/down", json=plan)
        try:
            yield
        finally:
            server.request("DELETE", "/$SYS/brokers/down")


def right_edge(page, selector):
    """Return where an element ends, in pixels, found and measured in one turn of the page.

    A row is drawn anew with each event; what was found one turn ago may be gone.
    """
    edge = page.wait_for_function(
        "(selector) => document.querySelector(selector)?.getBoundingClientRect().right",
        arg=selector,
    )
    return edge.json_value()


def in_tables(page, function):
    """Return what a function finds in the tables of the page, in one turn of it; see above."""
    tables = "[...document.querySelectorAll('.tablebox table')]"
    return page.wait_for_function(f"{tables}.length && ({function})({tables})").json_value()


@pytest.mark.parametrize("size", [DESK, {"width": 1024, "height": 768}, PHONE], ids=str)
def test_buttons_hide_nothing(opened, server, size):
    """O8: of a bridge that is down the reason can be read, and of every row all that it says."""
    retained = {"content-type": "application/json"}
    server.request("PUT", "/shelf/a/long/name/of/a/topic", json=LONG_JSON, headers=retained)
    with Mqtt(server.mqtt_port, client_id="a-client-with-a-rather-long-name") as client:
        client.subscribe("some/filter/that/is/long/#")
        client.subscribe("Boat/+")
        with bridge_that_is_down(server):
            page = opened("gateway", size)
            error = page.locator("[data-below=down]")
            expect(error).to_contain_text("Last error: the broker at 127.0.0.1")
            assert right_edge(page, "[data-below=down]") <= size["width"]
            for place, row in (
                ("gateway", "down"),
                ("clients", "a-client-with-a-rather-long-name"),
                ("messages", "shelf/a/long/name/of/a/topic"),
                ("records/Boat", None),
            ):
                turn_to(page, place)
                page.locator(f'[data-row="{row}"]' if row else "tr[data-topic]").first.wait_for()
                assert [] == in_tables(page, COVERED), place
                if row:
                    assert [] == in_tables(page, BEYOND), place
                unnamed = page.locator("th").evaluate_all(
                    "(all) => all.filter((one) => !one.textContent.trim()).length"
                )
                assert 0 == unnamed, place


def test_a_record_is_shown_with_plain_numbers_and_whole_moments(opened, server):
    page = opened("records/Boat", timezone_id="Europe/Berlin")
    row = page.locator("tr[data-topic='Boat/ark']")
    expect(row.locator("[data-label=length]")).to_have_text("6.90468")
    expect(row.locator("[data-label=length]")).to_have_attribute("title", "6.904679999999999")
    expect(row.locator("[data-label=seen]")).to_have_text("2026-11-21 10:11:12 UTC")
    turn_to(page, f"topics/{quote('Boat/ark', safe='')}")
    has(page, "[data-part=value]", '"length": 6.90468\n')
    at = page.locator(".detail .log time").first
    expect(at).to_have_text(MOMENT)


MOMENT = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+0[12]:00$")


def test_a_form_offers_what_may_be_written(opened, server):
    """O8: not what the server sets; the key is where the record is, and has any name."""
    page = opened("records/Boat")
    page.get_by_label("Edit Boat/ark").click()
    key = page.locator("#field-name")
    expect(key).to_have_value("ark")
    expect(key).not_to_be_editable()
    names = page.locator("dialog label").all_inner_texts()
    assert ["name", "captain", "length", "seen", "notes"] == [name.split()[0] for name in names]
    assert "Captain" in names[1]
    expect(page.locator("#field-length")).to_have_value("6.904679999999999")
    page.locator("#field-notes").fill("short")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("dialog")).to_have_count(0)
    kept = server.request("GET", "/Boat/ark").json()
    assert ("short", 6.904679999999999) == (kept["notes"], kept["length"])
    page.get_by_role("button", name="New record").click()
    page.locator("#field-name").fill("a-cog")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("dialog")).to_have_count(0)
    assert 200 == server.request("GET", "/Boat/a-cog").status_code


def test_a_table_that_the_server_keeps_offers_no_change(opened, server):
    """O8, V4: each would be refused; its rows are shown, and other tables are offered theirs."""
    now = datetime.now(UTC).isoformat()  # an older one would be too late
    server.request("PUT", "/Boat/now", json={"captain": {"name": "Joe"}, "length": 3, "seen": now})
    # a row that comes while the page is open would be offered, not shown
    wait_until(lambda: server.request("GET", "/Hourly/?name==now").json(), "it is rolled up")
    page = opened("records/Hourly")
    has(page, "main", "kept by the server: read only")
    has(page, "tbody tr", "now")
    expect(page.get_by_role("button", name=re.compile("New record|Edit|Delete"))).to_have_count(0)
    turn_to(page, "records/Boat")
    expect(page.get_by_role("button", name="New record")).to_have_count(1)
    server.request("DELETE", "/Boat/now")


def test_who_walks_by_keys_stays_where_it_is_while_records_change(opened, server):
    page = opened("records/Boat")
    edit = page.get_by_label("Edit Boat/bark")
    edit.focus()
    server.request("PATCH", "/Boat/ark", json={"length": 12.5})
    has(page, "tr[data-topic='Boat/ark'] [data-label=length]", "12.5")
    expect(edit).to_be_focused()
    page.get_by_role("button", name="length").press("Enter")
    expect(page.get_by_role("button", name="length ▲")).to_be_focused()
    server.request("PATCH", "/Boat/ark", json={"length": 6.904679999999999})


def test_what_changes_between_the_read_of_a_table_and_its_stream_is_shown(opened, server):
    """O8: a change after the rows were read, and before the page hears of changes."""
    changed = []

    def after_the_read(route):
        answer = route.fetch()
        if not changed:
            changed.append(server.request("PATCH", "/Boat/ark", json={"length": 13.5}))
        route.fulfill(response=answer)

    page = opened("messages")
    page.route(re.compile(r"/Boat/\?.*limit"), after_the_read)
    turn_to(page, "records/Boat")
    has(page, "tr[data-topic='Boat/ark'] [data-label=length]", "13.5")
    assert 204 == changed[0].status_code
    server.request("PATCH", "/Boat/ark", json={"length": 6.904679999999999})


def test_records_are_sorted_on_a_phone(opened, server):
    """O8: where there is no room for heads of columns there is a choice of the order."""
    page = opened("records/Boat", PHONE)
    expect(page.locator("thead")).to_be_hidden()
    page.get_by_label("Order").select_option("-name")
    has(page, "tbody tr [data-label=name]", "bark")


def test_a_long_json_message_is_called_json(opened, server):
    """E30: the list has its beginning only."""
    with Mqtt(server.mqtt_port) as client:
        client.publish("shelf/json", str(LONG_JSON).replace("'", '"').encode())
        client.publish("shelf/text", b"{not so} " * 40)
    page = opened("messages")
    expect(page.locator('[data-row="shelf/json"] [data-label=Format]')).to_have_text("JSON")
    expect(page.locator('[data-row="shelf/text"] [data-label=Format]')).to_have_text("text")


def test_a_click_is_not_lost_while_rows_change(opened, server):
    """What is drawn anew under a pressed button gets no click."""
    length = "tr[data-topic='Boat/tug'] [data-label=length]"
    server.request("PUT", "/Boat/tug", json={"length": 1.5}).raise_for_status()
    page, beside = opened("records/Boat"), opened("records/Boat")
    has(beside, length, "1.5")
    has(page, length, "1.5")
    place = page.get_by_label("Edit Boat/tug").bounding_box()
    page.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    page.mouse.down()
    server.request("PUT", "/Boat/tug", json={"length": 2.5}).raise_for_status()
    has(beside, length, "2.5")
    page.mouse.up()
    expect(page.locator("#field-name")).to_have_value("tug")
    page.keyboard.press("Escape")
    has(page, length, "2.5")
    server.request("DELETE", "/Boat/tug").raise_for_status()
