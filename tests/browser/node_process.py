"""Programs of Node that take commands and tell what happens, a line of JSON each."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from serving import environment

NODE = shutil.which("node")
HERE = Path(__file__).parent
UI = HERE.parent.parent / "app" / "rowcast" / "doors" / "http" / "ui"
MARKS = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.skipif(not NODE, reason="Node.js is not installed"),
]


WEBSOCKET = "--experimental-websocket"
"""Gives Node 20 the WebSocket that later ones have."""


class NodeProcess:
    """One program of this folder, while it runs."""

    def __init__(self, script, *words, flags=()):
        command = map(str, [NODE, *flags, HERE / script, *words])
        self.process = subprocess.Popen(
            list(command), stdin=-1, stdout=-1, text=True, env=environment()
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.kill()
        self.process.wait()

    def do(self, what, **members):
        self.process.stdin.write(json.dumps({"do": what} | members) + "\n")
        self.process.stdin.flush()

    def next(self):
        return json.loads(self.process.stdout.readline())
