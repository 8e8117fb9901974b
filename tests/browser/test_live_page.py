"""The live page at /ui in headless Chromium: what an operator and a newcomer do on each page (O8).

What it may not do, such as load something from elsewhere, fails in every test (`conftest.py`).
"""

from urllib.parse import quote

import pytest
from pages import DESK, PHONE, has
from playwright.sync_api import expect

from serving import Server, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.slow]
PAGES = (
    "topics", "records", "messages", "console", "clients", "gateway", "server", "snapshots",
    "schema", "api", "users", "rules",
)  # fmt: skip


def line_of(topic):
    return f'.tree [data-topic="{topic}"]'


def test_the_tree_shows_values_as_they_change(opened, server):
    """O8: what anybody writes is there at once, and gone when it is deleted."""
    server.request("PUT", "/home/kitchen/temp", json=21.5)
    page = opened("topics")
    has(page, line_of("home/kitchen/temp"), "21.5")
    has(page, "#state", "live")
    server.request("PUT", "/home/kitchen/temp", json=22.75)
    has(page, line_of("home/kitchen/temp"), "22.75")
    server.request("DELETE", "/home/kitchen/temp")
    expect(page.locator(line_of("home/kitchen/temp"))).to_have_count(0)


def test_the_tree_is_walked_with_the_keyboard(opened, server):
    for n in range(3):
        server.request("PUT", f"/keys/{n}", json=n)
    page = opened("topics")
    has(page, line_of("keys/2"), "2")
    page.get_by_role("tree").focus()
    page.keyboard.press("End")
    for _ in range(10):
        page.keyboard.press("ArrowUp")
    page.get_by_placeholder("Find").fill("keys/1")
    expect(page.locator(".tree .line")).to_have_count(1)
    page.get_by_role("tree").focus()
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    has(page, "[data-part=topic]", "keys/1")


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
    """O8: what the table refuses is told beside the field that is wrong."""
    page = opened("records/Dog")
    page.get_by_role("button", name="New record").click()
    page.locator("#field-id").fill("made")
    page.locator("#field-age").fill("old")
    page.get_by_role("button", name="Save").click()
    has(page, "#field-name-wrong", "is required")
    has(page, "#field-age-wrong", "is not an Int")
    page.locator("#field-name").fill("Made")
    page.locator("#field-age").fill("3")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("dialog")).to_have_count(0)
    assert {"id": "made", "name": "Made", "age": 3} == server.request("GET", "/Dog/made").json()
    page.get_by_label("Conditions").fill("id==made")
    page.get_by_label("Conditions").press("Enter")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("button", name="Delete Dog/made").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    wait_until(lambda: server.request("GET", "/Dog/made").status_code == 404, "it is deleted")


def test_nobody_overwrites_what_was_not_seen(opened, server):
    """O8: who saves over a newer version is shown it, and chooses."""
    server.request("PUT", "/Dog/both", json={"name": "old"})
    page = opened("records/Dog")
    page.get_by_label("Edit Dog/both").click()
    page.locator("#field-name").fill("mine")
    server.request("PUT", "/Dog/both", json={"name": "theirs", "age": 9})
    page.get_by_role("button", name="Save").click()
    has(page, "dialog .note", "theirs")
    assert "theirs" == server.request("GET", "/Dog/both").json()["name"]
    page.get_by_role("button", name="Put my changes on top").click()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("dialog")).to_have_count(0)
    kept = server.request("GET", "/Dog/both").json()
    assert ("mine", 9) == (kept["name"], kept["age"])


def test_the_console_publishes_and_hears(opened, server):
    page = opened("console")
    page.get_by_label("Filter", exact=True).fill("said/+")
    page.get_by_role("button", name="Subscribe").click()
    page.get_by_role("button", name="Stop").wait_for()
    page.locator("#topic").fill("said/here")
    page.locator("#payload").fill('{"hello": 1}')
    page.get_by_role("button", name="Publish", exact=True).click()
    has(page, ".log li", '{"hello":1}')
    server.request("POST", "/said/there?retain=false", json="<b>text</b>")
    has(page, ".log li", "<b>text</b>")  # as it is, never as HTML


def test_a_restart_is_survived_without_losing_an_event(opened, server):
    """O10: the page's client goes on at its cursor."""
    page = opened("console")
    page.get_by_label("Filter", exact=True).fill("Counter/#")
    page.get_by_role("button", name="Subscribe").click()
    has(page, "#state", "live")
    server.request("PUT", "/Counter/c", json={"n": 1})
    has(page, ".log li", '"n":1')
    server.stop()
    server.start()
    for n in range(2, 12):  # before the page is back
        server.request("PUT", "/Counter/c", json={"n": n})
    has(page, ".log li", '"n":11')
    heard = page.locator(".log li .body").all_inner_texts()
    numbers = [int(text.split('"n":')[1].rstrip("}")) for text in heard if '"n":' in text]
    assert list(range(11, 0, -1)) == numbers


def test_snapshots_are_made_from_the_page(opened, server):
    server.request("PUT", "/Dog/1", json={"name": "Rex"})
    page = opened("snapshots")
    page.get_by_role("button", name="New snapshot").click()
    has(page, "tbody", "newest")


def test_figures_and_events_are_live(opened):
    page = opened("server")
    has(page, 'section[data-topic="$SYS/broker/heap/current"] .figure', "M")
    page.goto(page.url.replace("#/server", "#/clients"))
    has(page, ".log", "connected")


@pytest.mark.parametrize(
    ("size", "scheme"), [(DESK, "dark"), (PHONE, "light")], ids=["desk", "phone"]
)
def test_every_page_fits_its_screen_and_says_what_it_is(opened, size, scheme):
    """O8: nothing is wider than the screen, and each page has something to read."""
    page = opened("topics", size, color_scheme=scheme)
    for name in PAGES:
        page.goto(page.url.split("#")[0] + f"#/{name}")
        expect(page.locator(f'nav a[data-page="{name}"]')).to_have_attribute("aria-current", "page")
        expect(page.locator("main")).not_to_have_text("")
        widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert widths[0] <= widths[1], name


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


def test_a_dead_letter_is_mended_and_sent_again(opened, server, tmp_path):
    """O8: another server refuses what its table does not allow; edited here, it arrives there."""
    remote = tmp_path / "remote"
    remote.mkdir()
    with Server(remote, schema="type Strict @table @export { id: ID name: String! }") as other:
        plan = {"host": "127.0.0.1", "port": other.mqtt_port, "out": [{"filter": "Strict/#"}]}
        plan |= {"poison_max_attempts": 1}
        answer = server.request("PUT", "/$SYS/brokers/other", json=plan)
        assert answer.is_success, answer.text
        server.request("PUT", "/Strict/1", json={"age": 1})
        page = opened("gateway")
        has(page, "tbody", "connected")
        page.get_by_role("button", name="Edit").click()
        has(page, "tbody >> nth=1", "Strict/1")
        page.locator("#ask-payload").fill('{"name": "mended"}')
        page.get_by_role("dialog").get_by_role("button", name="Send").click()
        wait_until(lambda: other.request("GET", "/Strict/1").status_code == 200, "it arrives")
        assert "mended" == other.request("GET", "/Strict/1").json()["name"]
        has(page, "main", "No dead letters")
    server.request("DELETE", "/$SYS/brokers/other")


def test_the_documentation_needs_no_other_host(opened, server):
    """/docs leads to what the page makes of the OpenAPI document."""
    page = opened("topics")
    page.goto(f"{server.url}/docs")
    page.get_by_label("Find a path").fill("/Dog/{id}")
    page.get_by_text("/Dog/{id}").first.click()
    has(page, "main details", "What is sent")
