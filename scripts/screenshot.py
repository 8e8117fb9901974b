"""Takes the picture of the live page that README.md shows (scripts/screenshot)."""

import asyncio
import math
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
from playwright.async_api import async_playwright

from rowcast.program.commands.init import write_starters
from rowcast.program.config import load_config
from rowcast.program.main import Application

ROOT = Path(__file__).parent.parent
FILE = ROOT / "docs" / "live-page.png"
SIZE = {"width": 1200, "height": 790}
STATIONS = {"EWR": 40.0, "JFK": 42.0, "LGA": 41.0}
HOURS = 96
PAST_SECONDS = 50 * 60
"""How long ago the first reading was written, so that the plot of the last hour is full."""
SEED = 42
"""The same readings in each picture, so that it changes only when the page does."""


def readings() -> Iterator[tuple[str, dict[str, object]]]:
    """Give the topics and values that the page shows, in the order of their writing."""
    chance = random.Random(SEED)
    for hour in range(HOURS):
        for station, mean in STATIONS.items():
            swing = math.sin(hour / 24 * 2 * math.pi)
            yield (
                f"Weather/{station}",
                {
                    "time_hour": f"2026-01-{1 + hour // 24:02d}T{hour % 24:02d}:00:00Z",
                    "temp": round(mean + 9 * swing + chance.gauss(0, 0.8), 1),
                    "humid": round(62 - 15 * swing + chance.gauss(0, 1.5), 1),
                },
            )
    yield "Dog/1", {"name": "Rex", "breed": "collie", "age": 4}
    yield "Dog/2", {"name": "Bella", "breed": "beagle"}
    yield "home/kitchen/temp", 21.5
    yield "home/kitchen/light", "on"
    yield "home/hall/motion", False


async def take(url: str, chromium: str, file: Path) -> None:
    """Open the page on one station, wait until it shows what was written, and save the picture."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        page = await browser.new_page(viewport=SIZE, color_scheme="light")
        async with page.expect_response(lambda answer: "every=" in answer.url):
            await page.goto(f"{url}/ui/#/topics/Weather%2FJFK")
        await page.locator('.tree [data-topic="Weather/JFK"]').wait_for()
        await page.locator("canvas").first.wait_for()
        await page.locator("#state:has-text('live')").wait_for()
        await page.screenshot(path=file)
        await browser.close()


async def run(folder: Path, chromium: str, file: Path) -> None:
    """Serve the files of ``rowcast init``; the readings are spread over the last 50 minutes."""
    list(write_starters(folder))
    written = list(readings())
    behind = PAST_SECONDS

    def now() -> float:
        return time.time() - behind

    settings = {"schema": folder / "schema.graphql", "resources": folder / "resources"}
    settings |= {"data": folder / "data", "http.port": 0, "mqtt.network.port": 0}
    application = Application(load_config(None, {}, settings), now)
    await application.start()
    url = f"http://127.0.0.1:{application.http_port}"
    async with httpx.AsyncClient(base_url=url) as client:
        for number, (topic, value) in enumerate(written, start=1):
            (await client.put(f"/{topic}", json=value)).raise_for_status()
            behind = PAST_SECONDS * (1 - number / len(written))
    await take(url, chromium, file)
    await application.stop()


def main() -> None:
    """Write the file that is named, or the one of README.md."""
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("scripts/screenshot needs Chromium; on Debian, install the package chromium")
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder), chromium, file))
    print(f"{file}: {file.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
