"""The time bar over the records of a table: as of a moment, played from there, and back (M6)."""

import pytest
from pages import has
from playwright.sync_api import expect

from serving import Server, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.slow]
SCHEMA = """
type Tank @table @export {
  id: ID @primaryKey
  level: Int
}
"""
LEVEL = "tr[data-topic='Tank/a'] td[data-label=level]"
MOMENT = "[data-part=moment]"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server whose one tank has been filled, long ago as browsers see it."""
    with Server(tmp_path_factory.mktemp("server"), SCHEMA) as running:
        yield running


def fill(server, level):
    """Write a level; return when it was there, in milliseconds."""
    server.request("PUT", "/Tank/a", json={"level": level}).raise_for_status()
    return server.request("GET", "/Tank/a?meta=true").json()["_version"] // 1000


def until_later(server, ms):
    """Wait until the whole second after a moment has gone by."""

    def now():
        server.request("PUT", "/Tank/clock", json={}).raise_for_status()
        return server.request("GET", "/Tank/clock?meta=true").json()["_version"] // 1_000_000

    wait_until(lambda: now() > ms // 1000 + 1, "seconds have gone by")


def look_at(page, ms):
    """Choose a moment, as the slider does when it is let go."""
    page.locator("input[type=datetime-local]").evaluate(
        """(node, ms) => {
          const at = new Date(ms), two = (n) => String(n).padStart(2, '0')
          node.value = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}T` +
            `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`
          node.dispatchEvent(new Event('change'))
        }""",
        ms,
    )


def test_a_table_is_shown_as_it_was_played_and_shown_as_it_is(opened, server):
    first = fill(server, 1)
    until_later(server, first)
    fill(server, 2)
    fill(server, 3)
    page = opened("records/Tank")
    has(page, LEVEL, "3")
    has(page, MOMENT, "as it is now")
    page.locator(".past summary").click()
    expect(page.get_by_role("button", name="Play")).to_be_disabled()
    look_at(page, first + 1000)
    has(page, LEVEL, "1")
    expect(page.get_by_role("button", name="Edit Tank/a")).to_have_count(0)
    page.get_by_label("Speed").select_option("600")
    page.get_by_role("button", name="Play").click()
    has(page, LEVEL, "3")  # the last event is followed by the end, which is now
    has(page, MOMENT, "as it is now")
    expect(page.get_by_role("button", name="Edit Tank/a")).to_have_count(1)
    fill(server, 4)
    has(page, LEVEL, "4")


def test_what_is_written_now_is_not_shown_in_the_past(opened, server):
    first = fill(server, 10)
    until_later(server, first)
    fill(server, 11)
    page = opened("records/Tank")
    has(page, LEVEL, "11")
    page.locator(".past summary").click()
    look_at(page, first + 1000)
    has(page, LEVEL, "10")
    fill(server, 99)
    expect(page.locator(LEVEL)).to_have_text("10")
    page.get_by_label("Speed").select_option("1")
    page.get_by_role("button", name="Play").click()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Play")).to_be_enabled()
    page.get_by_role("button", name="Now").click()
    has(page, LEVEL, "99")
