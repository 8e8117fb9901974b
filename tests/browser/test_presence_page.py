"""Presence of pages: a record that says whether a page is there (C21)."""

import pytest

from serving import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.slow]
BEGIN = """async ([topic, present, gone]) => {
  const { Rowcast } = await import('/ui/rowcast.js')
  const { Presence } = await import('/ui/presence.js')
  window.here = new Presence(new Rowcast(), topic, { present, gone })
  return here.ready.then(() => 'ready', (problem) => problem.status)
}"""


def begin(page, topic, present="here", gone="away"):
    return page.evaluate(BEGIN, [topic, present, gone])


def told(server, topic, value):
    def is_told():
        return value == server.request("GET", f"/{topic}").json()

    wait_until(is_told, f"{topic} is {value}")


def test_c21_a_page_that_is_left_is_gone(opened, server):
    """C21: whoever reads or watches the record is told, by the page or by its will."""
    page = opened("topics")
    assert "ready" == begin(page, "presence/ann")
    told(server, "presence/ann", "here")
    page.close()
    told(server, "presence/ann", "away")


def test_c21_a_page_that_ends_it_is_gone_at_once(opened, server):
    page = opened("topics")
    begin(page, "presence/ben")
    page.evaluate("here.close()")
    assert "away" == server.request("GET", "/presence/ben").json()


def test_c21_a_page_says_so_again_when_another_one_of_the_same_user_goes(opened, server):
    """C21: also after a will of its own, written late for a connection that fell silent."""
    first, second = opened("topics"), opened("topics")
    for page in (first, second):
        begin(page, "presence/eve")
    first.close()
    topic = "/presence/eve?last=10"
    wait_until(
        lambda: (
            ["here", "here", "away", "here"]
            == [event["value"] for event in server.request("GET", topic).json()]
        ),
        "the second page says so",
    )
    told(server, "presence/eve", "here")


def test_c21_a_page_comes_back_after_a_restart(opened, server):
    page = opened("topics")
    begin(page, "presence/joe")
    server.kill()
    server.start()
    wait_until(lambda: "away" in [one["value"] for one in past(server)], "the will is written")
    told(server, "presence/joe", "here")


def past(server):
    return server.request("GET", "/presence/joe?last=10").json()


def test_c21_what_cannot_be_written_is_refused(opened):
    """C21: the will is checked when it is set."""
    assert 422 == begin(opened("topics"), "Counter/1", {"n": 1}, {"n": "gone"})
