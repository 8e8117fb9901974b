"""What tests of the live page say about it."""

from playwright.sync_api import expect

DESK = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}


def has(page, selector, text):
    """Wait until an element has a text."""
    expect(page.locator(selector).first).to_contain_text(text)


def turn_to(page, place):
    """Go to another part of the page, as its links do."""
    page.evaluate("(place) => { location.hash = `#/${place}` }", place)
