"""What runs beside a server, on the page of the server itself (O8)."""

import pytest
from pages import has, turn_to
from playwright.sync_api import Error, expect

from clusters import Cluster
from serving import Server, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with a worker."""
    settings = {"workers.count": 1, "workers.http_port": 0}
    with Server(tmp_path_factory.mktemp("server"), settings=settings) as running:
        yield running


def test_workers_are_shown_and_nodes_only_where_there_are(opened, server):
    page = opened("server")
    has(page, "[data-part=workers]", "ready")
    pid = str(server.request("GET", "/$SYS/workers/").json()[0]["pid"])
    has(page, "[data-part=workers]", pid)
    expect(page.locator("[data-part=nodes]")).to_be_hidden()


def test_a_failed_request_is_made_again(opened, server):
    """O8: what the page asks once is asked until it is answered."""
    page, aborted = opened("topics"), []

    def abort_first(route):
        if aborted:
            return route.continue_()
        aborted.append(route.request.url)
        return route.abort()

    page.route("**/%24SYS/", abort_first)
    turn_to(page, "server")
    has(page, "[data-part=workers]", "ready")
    assert len(aborted) == 1


def test_who_is_here_is_asked_until_it_is_answered(chromium, server):
    """O8: a server that is away asks nobody to sign in."""
    page, refused, is_back = chromium.new_page(), [], []

    def refuse(route):
        if is_back:
            return route.continue_()
        refused.append(route.request.url)
        return route.abort() if len(refused) == 1 else route.fulfill(status=503)

    page.route("**/*SYS/me?*", refuse)
    page.goto(f"{server.url}/ui/#/server")
    has(page, "#state", "trying again")
    turn_to(page, "topics")
    turn_to(page, "server")
    expect(page.locator("dialog.signin")).to_have_count(0)
    is_back.append(True)
    has(page, "[data-part=workers]", "ready")
    page.close()


@pytest.mark.parametrize("missing", ["tree.js", "style.css"])
def test_a_page_of_which_a_file_did_not_arrive_loads_again(chromium, server, missing):
    """O8: the server ended, or a node changed its role, between two files."""
    page, aborted = chromium.new_page(), []

    def abort_first(route):
        if len(aborted) > 1:
            return route.continue_()
        aborted.append(route.request.url)
        return route.abort()

    page.route(f"**/ui/{missing}", abort_first)
    page.goto(f"{server.url}/ui/#/server")
    expect(page.locator("header")).to_have_css("display", "flex")
    has(page, "[data-part=workers]", "ready")
    assert len(aborted) == 2
    page.close()


def arrives_at(page, url):
    """Go there; tell whether somebody listened, which a node between two roles does not."""
    try:
        page.goto(url)
    except Error:
        return False
    return True


@pytest.mark.slow
def test_nodes_are_shown_at_each_of_them(chromium, tmp_path):
    with Cluster(tmp_path) as cluster:
        sequencer, follower = cluster.settle(), cluster.followers[0]
        for node in (sequencer, follower):
            wait_until(lambda node=node: len(node.nodes) == len(cluster.nodes), "it lists all")
            page = chromium.new_page()
            page.goto(f"{node.url}/ui/")
            turn_to(page, "server")
            has(page, "[data-part=nodes]", "sequencer")
            rows = page.locator("[data-part=nodes] tbody tr")
            expect(rows).to_have_count(3)
            expect(page.locator("[data-part=workers]")).to_be_hidden()
            page.close()
        cluster.followers[1].kill()
        wait_until(
            lambda: sum(bool(row["connected"]) for row in sequencer.nodes.values()) == 2,
            "it is noticed",
        )
        page = chromium.new_page()
        wait_until(lambda: arrives_at(page, f"{sequencer.url}/ui/#/server"), "it has a role")
        has(page, "[data-part=nodes] tbody", "not connected")
        page.close()
