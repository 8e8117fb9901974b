"""The live page at /ui in headless Chromium: what an operator and a newcomer do on each page (O8).

What it may not do, such as load something from elsewhere, fails in every test (`conftest.py`).
"""

from urllib.parse import quote

import pytest
from pages import DESK, PHONE, has, turn_to
from playwright.sync_api import expect

from serving import Server, wait_until
from talking import Mqtt

pytestmark = [pytest.mark.interop, pytest.mark.slow]
ADMINISTRATIVE_ACTION = 0x98
PAGES = (
    "topics", "records/Dog", "alarms", "messages", "console", "clients", "gateway", "server",
    "snapshots", "schema", "api", "users", "rules",
)  # fmt: skip


def line_of(topic):
    return f'.tree [data-topic="{topic}"]'


def test_the_tree_shows_values_as_they_change_and_is_walked_by_keys(opened, server):
    """O8: what anybody writes is there at once, and gone when it is deleted."""
    for n in range(3):
        server.request("PUT", f"/keys/{n}", json=n)
    server.request("PUT", "/home/kitchen/temp", json=21.5)
    page = opened("topics")
    has(page, line_of("home/kitchen/temp"), "21.5")
    has(page, "#state", "live")
    server.request("PUT", "/home/kitchen/temp", json=22.75)
    has(page, line_of("home/kitchen/temp"), "22.75")
    server.request("DELETE", "/home/kitchen/temp")
    expect(page.locator(line_of("home/kitchen/temp"))).to_have_count(0)
    tree = page.get_by_role("tree")
    tree.press("End")
    for _ in range(10):
        tree.press("ArrowUp")
    page.get_by_placeholder("Find").fill("keys/1")
    expect(page.locator(".tree .line")).to_have_count(1)
    tree.press("Home")
    tree.press("Enter")
    has(page, "[data-part=topic]", "keys/1")
    page.get_by_role("button", name="Edit").press("Enter")
    page.locator("dialog textarea").wait_for()
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="Edit")).to_be_focused()


def test_history_is_a_plot_that_goes_on_live(opened, server):
    """O8: the past comes from the log, what happens is appended; a field may be chosen."""
    for n in range(5):
        server.request("PUT", "/plot/a", json={"temp": n, "humid": 10 * n})
    page = opened(f"topics/{quote('plot/a', safe='')}")
    has(page, "[data-part=value]", '"humid": 40')
    expect(page.locator(".detail .log li")).to_have_count(5)
    page.get_by_role("button", name="humid").click()
    expect(page.get_by_role("button", name="humid")).to_have_attribute("aria-pressed", "true")
    drawn = "() => document.querySelector('.detail canvas').toDataURL()"
    before = page.evaluate(drawn)
    server.request("PUT", "/plot/a", json={"temp": 3, "humid": 90})
    has(page, "[data-part=value]", '"humid": 90')
    page.wait_for_function(f"(before) => ({drawn})() !== before", arg=before)
    expect(page.locator(".detail .log li")).to_have_count(6)


def test_records_are_browsed_filtered_and_paged(opened, server):
    rows = [{"id": f"p{n:03}", "name": f"dog {n}", "age": n} for n in range(70)]
    server.request("POST", "/Dog/", json=rows)
    page = opened("records/Dog")
    expect(page.locator("tbody tr")).to_have_count(50)
    page.get_by_role("button", name="Next").click()
    expect(page.locator("tbody tr")).to_have_count(20)
    page.get_by_role("button", name="Before").click()
    page.get_by_label("Column").select_option("age")
    page.get_by_label("Comparison").select_option("over")
    page.get_by_label("Value to compare with").fill("66")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("tbody tr")).to_have_count(3)
    page.get_by_role("button", name="age").click()
    page.get_by_role("button", name="age").click()
    has(page, "tbody tr", "dog 69")
    server.request("PATCH", "/Dog/p069", json={"name": "renamed"})
    has(page, "tbody tr", "renamed")


def test_a_record_is_made_mended_and_deleted(opened, server):
    """O8: what the table refuses is told beside its field; nobody overwrites what was not seen."""
    page = opened("records/Dog")
    page.get_by_role("button", name="New record").click()
    page.locator("#field-id").fill("made")
    page.locator("#field-age").fill("old")
    save = page.get_by_role("button", name="Save")
    save.click()
    has(page, "#field-name-wrong", "is required")
    has(page, "#field-age-wrong", "is not an Int")
    page.locator("#field-name").fill("Made")
    page.locator("#field-age").fill("3")
    save.click()
    expect(page.locator("dialog")).to_have_count(0)
    assert {"id": "made", "name": "Made", "age": 3} == server.request("GET", "/Dog/made").json()
    page.get_by_label("Conditions").fill("id==made")
    page.get_by_label("Conditions").press("Enter")
    expect(page.locator("tbody tr")).to_have_count(1)

    page.get_by_label("Edit Dog/made").click()
    page.locator("#field-name").fill("mine")
    server.request("PUT", "/Dog/made", json={"name": "theirs", "age": 9})
    save.click()
    has(page, "dialog .note", "theirs")
    assert "theirs" == server.request("GET", "/Dog/made").json()["name"]
    page.get_by_role("button", name="Put my changes on top").click()
    save.click()
    expect(page.locator("dialog")).to_have_count(0)
    kept = server.request("GET", "/Dog/made").json()
    assert ("mine", 9) == (kept["name"], kept["age"])
    has(page, "tbody tr", "mine")  # before, a deletion is refused: it is of what is shown

    page.get_by_role("button", name="Delete Dog/made").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    wait_until(lambda: server.request("GET", "/Dog/made").status_code == 404, "it is deleted")


def test_retained_messages_are_shown_in_their_format_and_cleared(opened, server):
    """O8, E30: by branch, live, one or all that a filter selects."""
    server.request("PUT", "/shelf/json", json={"on": True})
    server.request("PUT", "/shelf/bytes", content=b"\x7fELF\xff", headers=BYTES)
    page = opened("messages")
    page.locator("[data-row=mqtt_shelf]").get_by_role("button", name="Retained").click()
    has(page, '[data-row="shelf/bytes"]', "7f 45 4c 46 ff")
    has(page, '[data-row="shelf/json"]', "application/json")
    server.request("PUT", "/shelf/late", content="words", headers={"content-type": "text/plain"})
    has(page, '[data-row="shelf/late"]', "words")
    page.get_by_role("button", name="Show shelf/json").click()
    has(page, "[data-part=payload]", '"on": true')
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Clear shelf/bytes").click()
    page.get_by_role("dialog").get_by_role("button", name="Clear").click()
    expect(page.locator('[data-row^="shelf/"]')).to_have_count(2)
    waits = page.locator("tr", has_text="shelf/later")
    server.request("POST", "/$delayed/3600/shelf/later?retain=false", json=1)
    waits.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel it").click()
    expect(waits).to_have_count(0)
    page.get_by_role("button", name="Clear all of these").click()
    has(page, "dialog", "Clear 2 retained messages at shelf/#")
    page.get_by_role("dialog").get_by_role("button", name="Clear").click()
    has(page, "main", "Nothing is retained here")
    assert 404 == server.request("GET", "/shelf/json").status_code


BYTES = {"content-type": "application/octet-stream"}


def test_the_console_goes_on_over_gaps_and_restarts(opened, server):
    """O8, O10: what was not passed on is said; a restart of the server loses no event."""
    page = opened("topics/Counter%2Fc", script=INTERRUPTED)
    has(page, ".detail", f"mosquitto_sub -h 127.0.0.1 -p {server.mqtt_port} -v -t 'Counter/c'")
    turn_to(page, "console")
    page.get_by_label("Filter", exact=True).fill("Counter/#")
    page.get_by_role("button", name="Subscribe").click()
    has(page, "#state", "live")
    page.locator("#topic").fill("Counter/c")
    page.locator("#payload").fill('{"n": 0}')
    page.get_by_role("button", name="Publish", exact=True).click()
    has(page, ".log li", '"n":0')
    server.request("POST", "/Counter/c?retain=false", json={"n": 1})
    has(page, ".log li", '"n":1')
    page.evaluate("interrupt({ from: null, to: null, count: 12, reason: 'slow' })")
    has(page, ".log li", "12 not passed on: slow")
    has(page, "main", "12 not passed on")
    server.stop()
    server.start()
    for n in range(2, 12):  # before the page is back
        server.request("PUT", "/Counter/c", json={"n": n})
    has(page, ".log li", '"n":11')
    heard = page.locator(".log li .body").all_inner_texts()
    numbers = [int(text.split('"n":')[1].rstrip("}")) for text in heard if '"n":' in text]
    assert list(range(11, -1, -1)) == numbers


INTERRUPTED = """
const Native = WebSocket
window.WebSocket = class extends Native {
  constructor(...all) {
    super(...all)
    this.addEventListener('message', ({ data }) => {
      const { subscription } = JSON.parse(data)
      const event = (gap) => ({ subscription, cursor: null, topic: null, kind: 'gap', gap })
      if (!subscription) return
      window.interrupt = (gap) => this.onmessage({ data: JSON.stringify(event(gap)) })
    })
  }
}
"""
"""A server passes on what it can: a gap is put among its messages here."""


def test_the_page_lives_where_websockets_are_blocked(opened, server):
    """O10: after WebSockets that never open it hears by Server-Sent Events, each page of it."""
    page = opened("topics/blocked", script=BLOCKED)
    expect(page.locator("#state")).to_have_attribute("title", "over Server-Sent Events")
    has(page, "#state", "live")
    server.request("PUT", "/blocked", json="heard")
    has(page, "[data-part=value]", "heard")
    with Mqtt(server.mqtt_port, client_id="over-sse"):
        turn_to(page, "clients")
        has(page, "[data-row=over-sse]", "connected")
    expect(page.locator("[data-row=over-sse]")).to_have_count(0)


BLOCKED = """
window.WebSocket = class {
  constructor() { setTimeout(() => this.onclose({ code: 1006 })) }
  close() {}
}
"""


EVENTS = "section:has(> h2:text('What happened')) .log"
"""On the page of clients, where refused messages are listed, too."""


def test_an_operator_looks_after_the_server(opened, server):
    """O8, M11: figures, sessions, snapshots and events; a session is ended, a snapshot made."""
    page = opened("snapshots")
    page.get_by_role("button", name="New snapshot").click()  # done while others are looked at
    turn_to(page, "server")
    has(page, "[data-part=health]", "store: ok")
    has(page, 'section[data-topic="$SYS/broker/heap/current"] .figure', "M")
    turn_to(page, "clients")
    with Mqtt(server.mqtt_port, client_id="to-be-ended") as client:
        client.subscribe("some/where")
        client.subscribe("other/+")
        has(page, "[data-row=to-be-ended]", "some/where")
        server.request("PUT", "/some/where", json=1)
        has(page, EVENTS, "subscribed")
        client.message()  # acknowledged after all this
        has(page, "section:has(> h2:text('Slow')) tbody", "to-be-ended")
        page.get_by_role("button", name="Show to-be-ended").click()
        page.get_by_role("button", name="Unsubscribe other/+").click()
        expect(page.locator("dialog li")).to_have_count(1)
        page.keyboard.press("Escape")
        page.get_by_role("button", name="End to-be-ended").click()
        page.get_by_role("button", name="End the session").click()
        expect(page.locator("[data-row=to-be-ended]")).to_have_count(0)
        assert ADMINISTRATIVE_ACTION == client.receive().reason
    has(page, EVENTS, "to-be-ended")
    turn_to(page, "snapshots")
    has(page, "tbody", "newest")


@pytest.mark.parametrize(
    ("size", "scheme"), [(DESK, "dark"), (PHONE, "light")], ids=["desk", "phone"]
)
def test_every_page_fits_its_screen_and_says_what_it_is(opened, server, size, scheme):
    """O8: nothing is wider than the screen, and what a row offers is on it."""
    server.request("PUT", "/Dog/fits", json={"name": "x" * 120, "age": 3})
    server.request("PUT", "/fits/a", json={"text": "y" * 200})
    page = opened("topics", size, color_scheme=scheme)
    for name in PAGES:
        turn_to(page, name)
        link = page.locator(f'nav a[data-page="{name.partition("/")[0]}"]')
        expect(link).to_have_attribute("aria-current", "page")
        expect(page.locator("main h1, main .tree").first).to_be_visible()
        widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert widths[0] <= widths[1], name
        expect(page.locator("main h1").first).not_to_be_empty()
        assert all(page.locator("main th").all_inner_texts()), name
        if name in {"records/Dog", "messages"}:
            page.locator("td.end button").first.wait_for()
            ends = page.locator("td.end button").evaluate_all(RIGHT_ENDS)
            assert max(ends) <= size["width"], name
    assert scheme == page.locator("html").get_attribute("data-theme")
    page.get_by_role("button", name="Light or dark").click()
    assert scheme != page.locator("html").get_attribute("data-theme")
    if size is PHONE:  # what has no room below is one tap away
        page.get_by_role("button", name="More").click()
        page.locator("nav a[data-page=schema]").click()
        has(page, "h1", "Schema")
        expect(page.locator("nav a[data-page=rules]")).to_be_hidden()


RIGHT_ENDS = "(all) => all.map((one) => one.getBoundingClientRect().right)"


def test_ten_thousand_topics_draw_only_what_is_seen(opened, server):
    """O8: the page holds them all, and its document stays small."""
    with server.client() as client:
        for part in range(10):
            rows = [{"id": f"{part}-{n}", "n": n} for n in range(1000)]
            client.post("/Counter/", json=rows)
    page = opened("topics")
    has(page, line_of("Counter"), "100")
    page.locator(line_of("Counter")).click()
    page.locator(line_of("Counter/0-9")).wait_for()
    assert 60 > page.locator(".tree .line").count()
    page.get_by_role("tree").focus()
    page.keyboard.press("End")
    server.request("PUT", "/Counter/9-999", json={"n": 123456})
    page.get_by_placeholder("Find").fill("Counter/9-999")
    has(page, line_of("Counter/9-999"), "123456")


def test_dead_letters_are_mended_sent_again_and_discarded(opened, server, tmp_path):
    """O8: another server refuses what its table does not allow; edited here, it arrives there."""
    schema = "type Strict @table @export { id: ID name: String! }"
    with Server(tmp_path, schema=schema) as other:
        page = opened("gateway")
        page.get_by_role("button", name="New bridge").click()
        for name, text in {"name": "other", "host": "127.0.0.1", "out": "Strict/#"}.items():
            page.locator(f"#ask-{name}").fill(text)
        page.locator("#ask-port").fill(str(other.mqtt_port))
        page.get_by_role("button", name="Make").click()
        has(page, "[data-row=other] .good", "connected")
        has(page, "main", "No dead letters")
        page.get_by_role("button", name="Show other").click()
        has(page, "dialog", "Outbox")
        page.keyboard.press("Escape")
        plan = {"host": "127.0.0.1", "port": other.mqtt_port, "out": [{"filter": "Strict/#"}]}
        server.request("PUT", "/$SYS/brokers/other", json=plan | {"poison_max_attempts": 1})
        for name in ("mended", "again", "gone"):
            server.request("PUT", f"/Strict/{name}", json={"age": 1})

        def letter(name):
            return page.locator("[data-row^='other/']", has_text=f"Strict/{name}")

        for name in ("mended", "again", "gone"):  # each that comes draws the table anew
            letter(name).wait_for()
        letter("mended").get_by_role("button", name="Edit").click()
        page.locator("#ask-payload").fill('{"name": "mended"}')
        page.get_by_role("dialog").get_by_role("button", name="Send").click()
        wait_until(lambda: other.request("GET", "/Strict/mended").is_success, "it arrives")
        assert "mended" == other.request("GET", "/Strict/mended").json()["name"]
        expect(letter("mended")).to_have_count(0)
        letter("gone").get_by_role("button", name="Discard").click()
        page.get_by_role("dialog").get_by_role("button", name="Discard").click()
        expect(letter("gone")).to_have_count(0)
        letter("again").get_by_role("button", name="Send again").click()
        has(page, "#toasts", "It is sent again")
        has(page, "tbody >> nth=1", "Strict/again")  # as bad as it was
    page.get_by_role("button", name="Remove other").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    has(page, "main", "No bridges")


def test_the_documentation_needs_no_other_host(opened, server):
    """/docs leads to what the page makes of the OpenAPI document."""
    page = opened("topics")
    page.goto(f"{server.url}/docs")
    page.get_by_label("Find a path").fill("/Dog/{id}")
    page.get_by_text("/Dog/{id}").first.click()
    has(page, "main details", "What is sent")
