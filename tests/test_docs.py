"""The documents cannot lie: what they name is there, and what is there is named.

README.md and docs/ are for users, docs/architecture.md, which is the tour of the code, and what
it leads to for those who change it. Here their
commands, settings, error codes, files and symbols are compared with the code.
"""

import ast
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer.core
import typer.main

import behaviours
import rowcast
from house import APP, FLOORS, ROOT, expect_none, relative
from rowcast.core import events
from rowcast.core.errors import Code
from rowcast.program.cli import command, load_command
from rowcast.program.config import config_keys, load_config
from rowcast.program.settings.names import OTHER_NAMES
from rowcast.routes.resource import OVERRIDABLE
from rowcast.schema import parse_schema

README = ROOT / "README.md"
TOUR = ROOT / "docs" / "architecture.md"
TOUR_LINES_MAX = 150
"""The tour is a tour: details are in decisions, behaviours, concurrency and testing."""
PROJECT = APP / "program" / "template"
"""What `rowcast init` writes, so that a document may name it."""
CHAPTERS = sorted((ROOT / "docs").glob("*.md"))
MANUAL = [README, *CHAPTERS]
DECISIONS = ROOT / "docs" / "decisions"
SOURCE_ROOT = ROOT / "app" / "README.md"
INTERNALS = sorted((ROOT / "docs" / "internals").glob("*.md"))
DOCUMENTS = [
    relative(path) for path in (*MANUAL, SOURCE_ROOT, *INTERNALS, *sorted(DECISIONS.glob("*.md")))
]

OUTSIDE = {
    "curl", "mosquitto_pub", "mosquitto_sub", "mosquitto_ctrl", "docker", "git", "cd", "echo",
    "cat", "node", "npm",
    "python", "python3", "jq", "sqlite3", "openssl", "export", "kill", "source", "mkdir",
    "chmod", "cp", "systemctl",
}  # fmt: skip
"""Commands of other programs that a reader may be asked to type."""
INSIDE = {"python", "pip", "pytest", "uv", "ruff", "mypy"}
"""Commands of .venv/bin besides our own."""

EVENT_FIELDS = ("cursor", "topic", "kind", "version", "value")
KINDS = (
    events.SNAPSHOT, events.PUT, events.PATCH, events.DELETE, events.MESSAGE, events.CURRENT,
    events.RESET, events.GAP,
)  # fmt: skip

# -- reading Markdown ------------------------------------------------------------------------------

FENCE = re.compile(r"^```([\w-]*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(text: str, *languages: str) -> list[str]:
    """Return the fenced blocks of these languages."""
    return [match[2] for match in FENCE.finditer(text) if match[1] in languages]


def prose(text: str) -> str:
    """Return the text without fenced blocks."""
    return FENCE.sub("", text)


def quoted(text: str) -> list[str]:
    """Return what stands between backticks."""
    return re.findall(r"`([^`\n]+)`", prose(text))


def section(text: str, title: str) -> str:
    """Return what stands under the first heading that has these words; empty without one."""
    match = re.search(rf"^(#+)[^\n]*{title}[^\n]*\n", text, re.MULTILINE | re.IGNORECASE)
    if match is None:
        return ""
    rest = text[match.end() :]
    end = re.search(rf"^#{{1,{len(match[1])}}} ", FENCE.sub(_blank, rest), re.MULTILINE)
    return rest[: end.start()] if end else rest


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"\S", " ", match[0])


def commands(block: str) -> Iterator[list[str]]:
    """Give each command of a shell block as its words, without redirections and comments."""
    prompted = re.search(r"^\$ ", block, re.MULTILINE) is not None
    block = block.replace("\\\n", " ")
    pending = ""
    for line in block.splitlines():
        if prompted and not pending and not line.startswith("$ "):
            continue  # what the command before it printed
        pending += ("\n" if pending else "") + line.removeprefix("$ ")
        lexer = shlex.shlex(pending, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:
            continue  # a quotation that goes on in the next line
        pending = ""
        yield from _separated(words)
    if pending:
        yield ["(a quotation that never ends)", pending]


def _separated(words: list[str]) -> Iterator[list[str]]:
    current: list[str] = []
    for word in [*words, ";"]:
        if word in {"|", "||", "&&", ";", "&", "(", ")"}:
            while current and re.fullmatch(r"[A-Z_]+=.*", current[0]):
                current.pop(0)
            if current:
                yield current
            current = []
        else:
            current.append(word)


# -- checking them ---------------------------------------------------------------------------------


def wrong_command(words: list[str]) -> str:
    """Say what is wrong with a command that a reader is asked to type; empty when nothing is."""
    name = re.sub(r"^(\./|\S+/bin/)", "", words[0])
    if name == "rowcast":
        return _wrong_rowcast(words[1:])
    if name.startswith(("scripts/", ".ci/")):
        path = ROOT / name
        runs = path.is_file() and path.stat().st_mode & 0o100
        return "" if runs else f"{name} is no script that can be run"
    known = name in INSIDE if "/bin/" in words[0] else name in OUTSIDE
    return "" if known else f"{words[0]} is not known to tests/test_docs.py"


def _wrong_rowcast(words: list[str]) -> str:
    named = typer.main.get_command(command)
    if not words or words[0].startswith("-"):
        return ""
    path = ["rowcast"]
    while isinstance(named, typer.core.TyperGroup):
        word = words[len(path) - 1] if len(words) >= len(path) else ""
        if path[-1] == "run" and find_spec("pyspark") is None:
            return ""  # jobs cannot be known without it; the full run has it
        names = named.list_commands(None)
        if word not in names:
            return f"{' '.join(path)} has {', '.join(names)}, not {word or 'nothing'}"
        named = named.get_command(None, word) if path[1:] else load_command(word)
        path.append(word)
    options = {name for item in named.params for name in (*item.opts, *item.secondary_opts)}
    unknown = [
        word for word in words[1:] if word.startswith("--") and word.split("=")[0] not in options
    ]
    unknown = [word for word in unknown if word not in {"--", "--help"}]
    return f"{' '.join(path)} has no option {unknown[0]}" if unknown else ""


PLACES = {"app", "bench", "deploy", "docs", "tests", "scripts", "resources", ".ci"}
ENDINGS = r"\.(?:py|md|graphql|toml|lock|yaml|js|json|html|csv|png|service)"


def missing_place(text: str) -> str:
    """Say which file or symbol a quotation names that is not there; empty when all is well."""
    match = re.fullmatch(rf"((?:[\w.-]+/)*[\w.-]*(?:{ENDINGS}|/|/[\w-]+))(?::([\w.]+))?", text)
    if match is None:
        return ""
    name, symbol = match[1], match[2]
    inside = name.split("/")[0] in PLACES | set(FLOORS)
    if not inside and not re.fullmatch(rf"[\w.-]+{ENDINGS}", name):
        return ""
    found = [
        place
        for base in (APP, ROOT, ROOT / "app", PROJECT)
        for place in (base / name, base / f"{name}.py")
        if place.exists()
    ]
    if not found:
        return f"{text}: there is no {name}"
    if symbol and not any(_defines(place, symbol) for place in found if place.is_file()):
        return f"{text}: {name} defines no {symbol}"
    return ""


def _defines(path, symbol: str) -> bool:
    node: ast.AST | None = ast.parse(path.read_text(encoding="utf-8"))
    for part in symbol.split("."):
        node = next((item for item in getattr(node, "body", []) if part in _names(item)), None)
        if node is None:
            return False
    return True


def _names(node: ast.AST) -> set[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return {node.name}
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return {item.id for item in targets if isinstance(item, ast.Name)}


def dead_links(path: Path) -> Iterator[str]:
    """Give the links of a document to files or headings of the project that are not there."""
    for name, heading in re.findall(
        r"\]\(([^)#\s]*)#?([^)\s]*)\)", prose(path.read_text(encoding="utf-8"))
    ):
        target = path.parent / name if name else path
        if "://" in name:
            continue
        if not target.exists():
            yield f"{relative(path)}: there is no {name}"
        elif heading and heading not in anchors(target.read_text(encoding="utf-8")):
            yield f"{relative(path)}: {name} has no heading #{heading}"


def anchors(text: str) -> set[str]:
    """Return the names by which links reach the headings of a text."""
    heads = re.findall(r"^#+ (.+)$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


STATUS = re.compile(
    r"^Status: (accepted|superseded by \[(\d+)\]\(([\w.-]+)\))(?:[;,] [^\n]+(?:\n[^\n]+)?)?$",
    re.MULTILINE,
)
INDEX_ROW = re.compile(
    r"^\| (\d+) \| \[(.+)\]\(([\w.-]+)\) \| (accepted|superseded by \d+) \|$", re.MULTILINE
)


def wrong_decisions(folder: Path) -> Iterator[str]:
    """Decisions are numbered from 1 without gaps, say whether they stand, and are in the index."""
    expected = []
    for number, path in enumerate(sorted(folder.glob("[0-9]*.md")), 1):
        text = path.read_text(encoding="utf-8")
        title = re.match(r"# (\d+)\. (.+)\n", text)
        if title is None or int(title[1]) != number or path.name[:5] != f"{number:04d}-":
            yield f"{path.name}: its name begins with {number:04d}-, its text '# {number}. Title'"
            continue
        status = STATUS.search(text)
        if status is None or (status[3] and not (folder / status[3]).exists()):
            yield f"{path.name} lacks 'Status: accepted' or 'Status: superseded by [N](file)'"
            continue
        words = f"superseded by {status[2]}" if status[2] else "accepted"
        expected.append((str(number), title[2], path.name, words))
        for part in ("Context", "Decision"):
            if f"**{part}.** " not in text:
                yield f"{path.name} has no {part}"
    index = INDEX_ROW.findall((folder / "README.md").read_text(encoding="utf-8"))
    yield from (f"the index lacks {row}" for row in expected if row not in index)
    yield from (f"the index has {row}" for row in index if row not in expected)


# -- README.md and docs/ ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def readme():
    return README.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def manual():
    """All that is written for users."""
    return "\n".join(path.read_text(encoding="utf-8") for path in MANUAL)


@pytest.fixture(scope="module")
def tour():
    return TOUR.read_text(encoding="utf-8")


def test_changes_name_this_version(readme):
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    newest = re.search(r"^#+ .*?(\d+\.\d+\.\d+)", section(readme, "Changes"), re.MULTILINE)
    assert (version, version) == (rowcast.__version__, newest and newest[1])


def test_the_manual_names_every_setting(manual):
    named = {*quoted(manual)}
    assert [] == [key for key in config_keys() if key not in named]


def test_the_manual_names_no_setting_that_is_not_there(manual):
    sections = {key.split(".")[0] for key in config_keys() if "." in key}
    files = re.compile(ENDINGS + "$")
    assert [] == [
        word
        for word in quoted(manual)
        if re.fullmatch(rf"({'|'.join(sections)})(\.\w+)+", word)
        and not {word, f"{word}.enabled"} & {*config_keys(), *OTHER_NAMES}
        and not files.search(word)
    ]


def test_the_manual_shows_every_command(manual):
    names = typer.main.get_command(command).commands
    assert [] == [name for name in names if f"rowcast {name}" not in manual]


def test_the_manual_names_every_error_code(manual):
    named = {*quoted(manual)}
    assert [] == [code.value for code in Code if code.value not in named]


def test_the_manual_states_the_event_format(manual):
    words = set(re.findall(r"\w+", section(manual, "event format")))
    assert set() == {*EVENT_FIELDS, *KINDS} - words


def test_the_manual_names_every_method_of_a_resource(manual):
    words = set(re.findall(r"\w+", " ".join(quoted(manual) + blocks(manual, "python"))))
    assert set() == set(OVERRIDABLE) - words


def test_manual_and_tour_name_every_script(manual, tour):
    scripts = [path for path in (ROOT / "scripts").iterdir() if path.is_file() and not path.suffix]
    assert [] == [name for name in map(relative, scripts) if name not in manual + tour]


SHELLS = ("sh", "bash", "shell", "console")


def test_commands_of_manual_and_tour_exist(manual, tour):
    typed = [
        words
        for text in (manual, tour)
        for block in blocks(text, *SHELLS)
        for words in commands(block)
    ]
    expect_none([wrong for words in typed if (wrong := wrong_command(words))])
    assert typed


def test_examples_in_json_yaml_python_and_graphql_are_right(manual, tmp_path):
    for block in blocks(manual, "json"):
        json.loads(block)
    for block in blocks(manual, "yaml"):
        file = tmp_path / "rowcast.yaml"
        file.write_text(block, encoding="utf-8")
        load_config(file, {})
    for block in blocks(manual, "python"):
        ast.parse(block)
    for block in blocks(manual, "graphql"):
        parse_schema(block, "the manual")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_file_and_symbol_named_is_there(name):
    """O18."""
    text = (ROOT / name).read_text(encoding="utf-8")
    expect_none([wrong for item in quoted(text) if (wrong := missing_place(item))])


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_link_within_the_project_leads_somewhere(name):
    """A file that is there, and a heading that is in it."""
    expect_none(list(dead_links(ROOT / name)))


@pytest.mark.slow
def test_every_behaviour_has_a_line_and_a_test():
    """An id in a comment leads to docs/behaviours.md, a line there to a test."""
    expect_none(list(behaviours.mistakes()))


def test_readme_leads_to_every_chapter(readme):
    assert [] == [path.name for path in CHAPTERS if f"](docs/{path.name})" not in readme]


# -- docs/architecture.md --------------------------------------------------------------------------


def test_the_tour_visits_every_room(tour):
    """O2."""
    places = [APP, APP / "features", APP / "doors", ROOT / "app" / "rowcast_lake"]
    rooms = [
        room for place in places for room in place.iterdir() if (room / "__init__.py").exists()
    ]
    assert [] == [room.name for room in rooms if not re.search(rf"\b{room.name}(/|,| \|)", tour)]


def test_the_tour_is_short(tour):
    assert len(tour.splitlines()) <= TOUR_LINES_MAX


def test_the_tour_leads_to_six_files(tour):
    rows = re.findall(r"^(\d)\. `([\w/]+\.py)`: ", section(tour, "six files"), re.MULTILINE)
    assert ["1", "2", "3", "4", "5", "6"] == [number for number, _ in rows]


def test_the_tour_follows_a_write_and_a_watch_by_name(tour):
    """Each step names its file, most also the function; that they exist is tested above."""
    for title in ("A write", "A watch"):
        steps = re.findall(r"^\| \w+ \| (`.+?) \|", section(tour, title), re.MULTILINE)
        assert len(steps) >= 6
        assert sum(".py:" in step for step in steps) >= 5


def test_decisions_are_numbered_and_have_a_status():
    expect_none(list(wrong_decisions(DECISIONS)))


# -- the checks themselves -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["rowcast sevre", "rowcast get Dog/1 --formt json", "scripts/absent", "gcc x", "echo 'x"],
)
def test_a_wrong_command_is_noticed(text):
    assert all(map(wrong_command, commands(text)))


def test_commands_are_taken_apart():
    text = "# first\n$ A=1 scripts/serve --x & curl a |\\\n jq .\noutput\n$ rowcast put a '{\n}'\n"
    assert [
        ["scripts/serve", "--x"],
        ["curl", "a"],
        ["jq", "."],
        ["rowcast", "put", "a", "{\n}"],
    ] == list(commands(text))


@pytest.mark.parametrize(
    "text",
    ["core/absent.py", "core/topics:Absent", "core/topics.py:TopicFilter.absent", "absent.md"],
)
def test_a_missing_place_is_noticed(text):
    assert missing_place(text)


@pytest.mark.parametrize(
    "text",
    [
        "core/topics.py",
        "core/topics",
        "core/topics.py:TopicFilter.matches",
        "core/limits.py:TOPIC_BYTES_MAX",
        "app/rowcast/core/",
        "tests/house.py",
        "pyproject.toml",
        "Dog/1",
        "text/csv",
        "a/+/b",
        "x = 1",
    ],
)
def test_what_is_there_or_is_no_place_passes(text):
    assert "" == missing_place(text)


DECISION = "# 1. One\n\nStatus: accepted\n\n**Context.** A.\n\n**Decision.** B.\n"
INDEX = "| 1 | [One](0001-one.md) | accepted |\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("0001-one.md", DECISION.replace("# 1.", "# 2.")),
        ("0001-one.md", DECISION.replace("Status: accepted", "")),
        ("0001-one.md", DECISION.replace("accepted", "superseded by [9](0009-nine.md)")),
        ("0001-one.md", DECISION.replace("**Decision.** B.", "")),
        ("0003-three.md", DECISION.replace("# 1.", "# 3.")),
        ("0002-two.md", DECISION.replace("# 1.", "# 2.")),
        ("README.md", INDEX + INDEX.replace("1", "2")),
        ("README.md", "nothing"),
    ],
)
def test_a_wrong_decision_is_noticed(tmp_path, name, text):
    (tmp_path / "0001-one.md").write_text(DECISION)
    (tmp_path / "README.md").write_text(INDEX)
    assert [] == list(wrong_decisions(tmp_path))
    (tmp_path / name).write_text(text)
    assert list(wrong_decisions(tmp_path))


@pytest.mark.parametrize("link", ["absent.md", "other.md#absent", "#absent"])
def test_a_dead_link_is_noticed(tmp_path, monkeypatch, link):
    monkeypatch.setattr("test_docs.relative", str)
    (tmp_path / "other.md").write_text("# Other")
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n[a]({link}) [b](other.md#other) [c](#page)")
    assert 1 == len(list(dead_links(page)))


def test_a_section_ends_at_the_next_heading_of_its_height():
    text = "# A\n## The event format\none\n### B\n```sh\n# no heading\n```\ntwo\n## C\nthree"
    assert "one\n### B\n```sh\n# no heading\n```\ntwo\n" == section(text, "event format")
