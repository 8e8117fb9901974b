"""Headless Chromium for tests of the live page: one browser and one server for each module.

The page may load nothing from elsewhere and must not complain: every test fails at a script error,
at a breach of its Content-Security-Policy, and at a request to another host.
"""

import shutil

import pytest
from pages import DESK
from playwright.sync_api import expect, sync_playwright

from serving import PATIENCE_SECONDS, Server

CHROMIUM = next(
    (path for name in ("chromium", "google-chrome") if (path := shutil.which(name))), ""
)


@pytest.fixture(scope="module")
def chromium():
    if not CHROMIUM:
        pytest.skip("Chromium is not installed")
    expect.set_options(timeout=PATIENCE_SECONDS * 1000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    settings = {"slow_subscriptions.threshold_ms": 1}
    with Server(tmp_path_factory.mktemp("server"), settings=settings) as running:
        yield running


@pytest.fixture
def opened(chromium, server):
    """Open pages in contexts of their own, and fail when one of them complained."""
    contexts, complaints = [], []

    def open_at(place, size=DESK, script="", **options):
        context = chromium.new_context(viewport=size, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_SECONDS * 1000)
        page.on("pageerror", lambda error: complaints.append(error.message))
        page.on("console", lambda said: _complaint(said, complaints))
        page.on("request", lambda asked: _foreign(asked.url, server, complaints))
        if script:
            page.add_init_script(script)
        page.goto(f"{server.url}/ui/#/{place}")
        return page

    yield open_at
    for context in contexts:
        context.close()
    assert [] == complaints


def _complaint(said, complaints):
    """Note what is wrong; the browser also logs each failed connection, which the page shows."""
    expected = ("Failed to load resource", "WebSocket connection to", "net::ERR_CONNECTION_REFUSED")
    if said.type == "error" and not any(part in said.text for part in expected):
        complaints.append(said.text)


def _foreign(url, server, complaints):
    if not url.startswith((server.url, "data:", "blob:")):
        complaints.append(f"asks {url}")
