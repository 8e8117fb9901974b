"""The picture of the live page in README.md, and the script that makes it."""

import shutil
import subprocess
import sys

import pytest

from house import ROOT
from serving import PATIENCE_SECONDS, environment

PICTURE = ROOT / "docs" / "live-page.png"
SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
BYTES_MAX = 200_000
"""Of a picture that everybody who clones the project downloads."""


def test_the_picture_is_a_small_png():
    data = PICTURE.read_bytes()
    assert (SIGNATURE, True) == (data[:8], len(data) < BYTES_MAX)


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")
def test_the_script_makes_it(tmp_path):
    made = tmp_path / "page.png"
    subprocess.run(
        [sys.executable, ROOT / "scripts" / "screenshot.py", made],
        env=environment(),
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    assert (SIGNATURE, True) == (made.read_bytes()[:8], made.stat().st_size < BYTES_MAX)
