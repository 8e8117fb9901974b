"""How the live page writes values, numbers and times, and how its colours stand out (O8).

The functions are called in Node, many questions in one process; colours are read from its style.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote

import pytest

from serving import environment

NODE = shutil.which("node")
UI = Path(__file__).parent.parent.parent / "app" / "rowcast" / "doors" / "http" / "ui"
SUMMER, WINTER = 1_750_000_000_000, 1_763_800_000_000
AA = 4.5
"""WCAG 2.2, 1.4.3: the least contrast of text."""


def answers(questions, module="text.js", zone="Europe/Berlin"):
    """Return what functions of a module of the page answer, each asked as [name, *arguments]."""
    if not NODE:
        pytest.skip("Node.js is not installed")
    script = (
        f"const page = await import({json.dumps((UI / module).as_uri())});"
        "const { readFileSync } = await import('node:fs');"
        "const asked = JSON.parse(readFileSync(0));"
        "console.log(JSON.stringify(asked.map(([name, ...all]) => page[name](...all) ?? null)))"
    )
    done = subprocess.run(
        [NODE, "--input-type=module", "-e", script],
        input=json.dumps(questions).encode(),
        stdout=subprocess.PIPE,
        check=True,
        env=environment() | {"TZ": zone},
        timeout=180,
    )
    return json.loads(done.stdout)


def test_numbers_have_no_digits_that_only_binary_gives_them():
    assert [6.90468, "6.90468", "10.35702", '{"a":[0.3]}', "9007199254740991", "1e-300"] == answers(
        [
            ["plain", 6.904679999999999],
            ["brief", 6.904679999999999],
            ["brief", 10.357019999999999],
            ["brief", {"a": [0.1 + 0.2]}],
            ["brief", 9007199254740991],
            ["brief", 1e-300],
        ]
    )


def test_o8_a_map_that_only_looks_like_bytes_is_a_map():
    """O8: bytes have the one member $bytes; base64 of anything else would end the drawing."""
    values = {"$bytes": "%%%", "x": 1}, {"$bytes": 5}, {"$bytes": "AAE="}
    shown = ['{"$bytes":"%%%","x":1}', '{"$bytes":5}', "00 01"]
    assert shown == answers([["brief", value] for value in values])
    assert json.loads(answers([["pretty", values[0]]])[0]) == values[0]


NAMES = [
    "Dog/1",
    "a'|reboot|'b",
    "a\\'; reboot #",
    "$(reboot)/`reboot`/$HOME",
    "a b\n\x1b[201~\x03reboot\n",
    "Gr\u00fc\u00dfe/\u732b/\x85\u2028",
    "100%41/a?b#c{d,e}[1-2]",
    "Dog/../Cat/1",
    "$SYS/broker/uptime",
]
"""Names of topics, of which a client may choose any."""


def test_o8_a_command_names_a_topic_whatever_is_in_it():
    """O8: somebody pastes it into a shell; the name is one word there, and runs nothing."""
    words = answers([["quoted", name] for name in NAMES])
    assert not [word for word in words if not word.isprintable()]
    script = f"printf '%s\\0' {' '.join(words)}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    assert NAMES == done.stdout.decode().split("\0")[:-1]


def test_o8_a_url_names_a_topic_whatever_is_in_it():
    """O8: readable where it can be, and without what curl and a server take for something else."""
    paths = answers([["spelled", name] for name in NAMES])
    assert NAMES == [unquote(path)[1:] for path in paths]
    assert not [path for path in paths if re.search(r"[?#\[\]{} ]|/\.\.?(/|$)", path)]
    assert ["/Dog/1", "/$SYS/broker/uptime"] == [paths[0], paths[-1]]
    assert paths[5].startswith("/Gr\u00fc\u00dfe/\u732b/")


def test_moments_have_their_date_and_zone():
    asked = [["when", SUMMER], ["when", WINTER]]
    assert ["2025-06-15 17:06:40 +02:00", "2025-11-22 09:26:40 +01:00"] == answers(asked)
    assert ["2025-06-15 15:06:40 UTC"] == answers(asked[:1], zone="UTC")
    assert ["2025-06-15 20:36:40 +05:30"] == answers(asked[:1], zone="Asia/Kolkata")
    assert ["2025-06-15 12:36:40 -02:30"] == answers(asked[:1], zone="America/St_Johns")


def test_a_moment_of_a_record_says_that_it_is_in_utc():
    """Conditions are asked in UTC, so the cell shows what one would ask for."""
    assert ["2026-11-22 20:04:01 UTC"] == answers([["cellText", "2026-11-22T20:04:01.123456Z"]])


def test_json_that_a_list_has_cut_short_is_still_json():
    """E30: a list has the first 256 characters of a payload."""
    whole = json.dumps({"readings": [{"s": 'a,]}\\" {', "v": -1.5e3, "on": True}, None] * 20})
    beginnings = [whole[:length] for length in range(1, len(whole))]
    asked = [["formatOf", {"payload": text, "size": len(whole)}] for text in beginnings]
    assert {"JSON"} == set(answers(asked))


@pytest.mark.parametrize(
    "text", ["[INFO] started", "{a}", '{"a" 1', "tomato", '{"a":1}}', "[1,]", "[}"]
)
def test_text_that_only_begins_like_json_is_text(text):
    long = text + " and so on" * 40
    row = {"payload": long[:256], "size": len(long)}
    assert ["text"] == answers([["formatOf", row]])


def test_whole_payloads_are_what_they_are():
    rows = [
        {"payload": "21.5", "size": 4},
        {"payload": '{"cut', "size": 5},
        {"payload": '{"ä', "size": 4},
        {"payload": {"$bytes": "AAA="}, "size": 2},
        {"payload": "x", "size": 1, "content_type": "text/csv"},
    ]
    asked = [["formatOf", row] for row in rows]
    assert ["JSON", "text", "text", "bytes", "text/csv"] == answers(asked)


def test_the_key_is_known_by_any_name():
    weather = {
        "properties": {
            "temp": {"type": ["number", "null"]},
            "time": {"type": "string"},
            "origin": {"type": "string"},
            "made": {"type": "string", "readOnly": True},
            "where": {"$ref": "#/components/schemas/Place"},
        },
        "required": ["time", "where"],
    }
    asked = [
        ["keyOf", weather],
        ["keyOf", {"properties": {}}],
        ["typeOf", {"anyOf": [{"$ref": "a/Owner"}]}],
    ]
    assert ["origin", "id", "Owner"] == answers(asked, "shape.js")


# -- colours -----------------------------------------------------------------------------------


def themes():
    """Return the colours of both themes by their names."""
    found = re.findall(r":root[^{]*\{(.*?)\}", (UI / "style.css").read_text(), re.DOTALL)
    read = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]+)\b", block)) for block in found]
    assert 2 == len(read)
    return read


def luminance(colour):
    """WCAG 2.2: relative luminance."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * one for one in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_what_wcag_says():
    assert 21 == round(contrast("#000", "#ffffff"), 2)
    assert 4.48 == round(contrast("#777777", "#fff"), 2)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(theme):
    colours = themes()[theme]
    pairs = [
        (ink, paper)
        for ink in ("ink", "soft", "good", "bad", "accent")
        for paper in ("bg", "card", "fill")
    ]
    pairs += [("on-accent", "accent"), ("ink", "flash"), ("card", "bad"), ("bg", "ink")]
    weak = {
        (ink, paper): round(contrast(colours[ink], colours[paper]), 2)
        for ink, paper in pairs
        if contrast(colours[ink], colours[paper]) < AA
    }
    assert {} == weak
