"""The house rules that a machine checks (docs/architecture.md). Each proves itself on a bad sample.

A rule takes one source and gives complaints: ``path:line: what is wrong and what to do instead``.
"""

import ast
import re
from collections.abc import Callable, Iterator, Sequence

import pytest

import house
from house import CODE, FLOORS, ROOT, Source, assigned, expect_none, relative, sources, text_files

FUNCTION_LINES_MAX = 60
MODULE_LINES_MAX = 500
LINE_CHARACTERS_MAX = 100
HEADER_SENTENCES_MIN = 2

BANNED_WORDS = ("TO" + "DO", "FIX" + "ME", "X" * 3)
"""Spelt in parts, so that this file may name them."""

LOCAL_HOSTS = re.compile(
    r"""(?x) (127\.|\.\.\.|localhost\b|0\.0\.0\.0|\[::1?\]|\{|\$|%|<|\[|\( | ["'`)\s,;]|$ |
    ([\w-]+\.)*(example(\.(com|net|org))?|server|host|test|invalid)\b )"""
)
"""This machine, a placeholder, or a name reserved for examples (RFC 2606)."""

MUTATORS = {
    "append", "add", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft",
    "appendleft", "remove", "setdefault", "update", "sort",
}  # fmt: skip
CONTAINERS = {"list", "dict", "set", "deque", "defaultdict", "OrderedDict", "Counter", "bytearray"}
BOUNDS = re.compile(r"^(timeout|.*_timeout|maxsize|maxlen|max_size|max_queue|queue_max)(_\w+)?$")


# -- size and words ------------------------------------------------------------------------------


def functions(source: Source) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Give every function and method, nested ones too."""
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def long_functions(source: Source) -> Iterator[str]:
    """A function has at most 60 lines, its docstring and decorators left out."""
    for node in functions(source):
        length = node.end_lineno - node.lineno + 1
        if ast.get_docstring(node, clean=False) is not None:
            length -= node.body[0].end_lineno - node.body[0].lineno + 1
        if length > FUNCTION_LINES_MAX:
            yield (
                f"{source.path}:{node.lineno}: {node.name} has {length} lines; "
                f"divide it, the limit is {FUNCTION_LINES_MAX}"
            )


def long_modules(source: Source) -> Iterator[str]:
    """A module has at most 500 lines."""
    length = source.text.count("\n")
    if length > MODULE_LINES_MAX:
        yield f"{source.path}: {length} lines; make a room of it, the limit is {MODULE_LINES_MAX}"


def long_lines(source: Source) -> Iterator[str]:
    """A line has at most 100 characters."""
    for number, line in enumerate(source.text.splitlines(), 1):
        if len(line) > LINE_CHARACTERS_MAX:
            yield f"{source.path}:{number}: {len(line)} characters; break it"


def banned_words(source: Source) -> Iterator[str]:
    """Nothing is left to be done: it is done, or it is an issue."""
    if not any(word in source.text for word in BANNED_WORDS):
        return  # nearly always: looking at each line takes two seconds
    for number, line in enumerate(source.text.splitlines(), 1):
        for word in BANNED_WORDS:
            if re.search(rf"\b{word}\b", line):
                yield f"{source.path}:{number}: {word}; do it, or write an issue"


def foreign_addresses(source: Source) -> Iterator[str]:
    """No address of a registry or of any host but this one and those for examples."""
    for number, line in enumerate(source.text.splitlines(), 1):
        if "://" not in line:
            continue
        for match in re.finditer(r"\b(?:https?|wss?|mqtts?|git|ftp)://(?:[\w.~:-]+@)?(.*)", line):
            if not LOCAL_HOSTS.match(match[1]):
                yield f"{source.path}:{number}: the address of a host: {match[0][:60]}"


# -- words about the code ------------------------------------------------------------------------


def undocumented_names(source: Source) -> Iterator[str]:
    """Every public class and function says what it is: a sentence with a full stop."""
    for name, node in _public(source.tree):
        text = ast.get_docstring(node)
        first = (text or "").split("\n\n")[0].rstrip("\"')")
        if not first:
            yield f"{source.path}:{node.lineno}: {name} has no docstring; say what it is"
        elif not first.endswith("."):
            yield f"{source.path}:{node.lineno}: {name}'s first sentence lacks its full stop"


def _public(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    for child in getattr(node, "body", []):
        if not isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if child.name.startswith("_") or _says_it_elsewhere(child):
            continue
        yield prefix + child.name, child
        if isinstance(child, ast.ClassDef):
            yield from _public(child, f"{prefix}{child.name}.")


def _says_it_elsewhere(node: ast.AST) -> bool:
    """Whether another definition of the name carries the docstring."""
    names = {getattr(item, "attr", getattr(item, "id", "")) for item in node.decorator_list}
    return bool(names & {"setter", "deleter", "overload", "override"})


def headless_modules(source: Source) -> Iterator[str]:
    """A module below the features begins with what it owns and why; a package with a line."""
    text = ast.get_docstring(source.tree) or ""
    wanted = 1 if source.is_package else HEADER_SENTENCES_MIN
    if source.floor < FLOORS["features"] and len(re.findall(r"[.;:](?=\s|$)", text)) < wanted:
        yield f"{source.path}:1: begin with a paragraph: what it owns, why, what it must not know"


# -- types and state -----------------------------------------------------------------------------


def loose_types(source: Source) -> Iterator[str]:
    """No ``Any`` below the features; ``object`` says the same and is checked."""
    if source.floor >= FLOORS["features"]:
        return
    for node in source.nodes:
        if isinstance(node, ast.ImportFrom) and node.module == "typing":
            loose = any(alias.name == "Any" for alias in node.names)
        else:
            loose = isinstance(node, ast.Attribute) and ast.unparse(node) == "typing.Any"
        if loose:
            yield f"{source.path}:{node.lineno}: Any below the features; use object"


def bare_ignores(source: Source) -> Iterator[str]:
    """An ignored type error names its code."""
    for number, line in enumerate(source.text.splitlines(), 1):
        if re.search(r"#\s*type:\s*ignore(?!\[[\w-])", line):
            yield f"{source.path}:{number}: say which: type: ignore[code]"


def module_state(source: Source) -> Iterator[str]:
    """A module holds constants; what changes belongs to an object that somebody made."""
    constants = set()
    for node in source.tree.body:
        name, value = assigned(node)
        if name and _is_container(value) and name != "__all__":
            if name.strip("_").isupper():
                constants.add(name)
            else:
                yield f"{source.path}:{node.lineno}: module state {name}; put it into an object"
    for node in source.nodes:
        if isinstance(node, ast.Global):
            yield f"{source.path}:{node.lineno}: global; put it into an object"
        elif (name := _changed(node)) in constants:
            yield f"{source.path}:{node.lineno}: the constant {name} is changed"


def _is_container(value: ast.AST | None) -> bool:
    if isinstance(value, ast.Call):
        name = getattr(value.func, "attr", getattr(value.func, "id", ""))
        return name in CONTAINERS
    return isinstance(
        value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp
    )


def _changed(node: ast.AST) -> str:
    """Return the name of the variable whose inside a statement or call changes."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        target = node.func.value if node.func.attr in MUTATORS else None
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        target = node.value
    elif isinstance(node, ast.AugAssign):
        target = node.target
    else:
        target = None
    return target.id if isinstance(target, ast.Name) else ""


def thawed_values(source: Source) -> Iterator[str]:
    """A dataclass is frozen and has slots, unless it says that it is changed."""
    for node in source.nodes:
        for item in getattr(node, "decorator_list", []):
            if ast.unparse(item).startswith(("dataclass", "dataclasses.dataclass")):
                words = {word.arg for word in getattr(item, "keywords", [])}
                if not {"frozen", "slots"} & words:
                    yield f"{source.path}:{item.lineno}: {node.name}: dataclass(frozen, slots)"


def global_logging(source: Source) -> Iterator[str]:
    """Only the program configures logging."""
    if source.floor >= FLOORS["program"]:
        return
    for node in source.nodes:
        name = getattr(node.func, "attr", "") if isinstance(node, ast.Call) else ""
        if name in {"basicConfig", "dictConfig", "fileConfig", "setLevel"}:
            yield f"{source.path}:{node.lineno}: {name}(): only main.py configures logging"


# -- bounds and the one writer -------------------------------------------------------------------


def nameless_bounds(source: Source) -> Iterator[str]:
    """Every queue, buffer and timeout names a constant of app/rowcast/core/limits.py."""
    if source.path in {"app/rowcast/core/limits.py", "app/rowcast/core/authentication_limits.py"}:
        return
    for node in source.nodes:
        for word in node.keywords if isinstance(node, ast.Call) else []:
            if word.arg and BOUNDS.match(word.arg) and _is_number(word.value):
                yield (
                    f"{source.path}:{word.value.lineno}: {word.arg}={ast.unparse(word.value)}; "
                    "give it a name and a reason in app/rowcast/core/limits.py"
                )


def _is_number(node: ast.AST) -> bool:
    """Whether it is arithmetic on literals; 0 is no bound but the wish not to wait."""
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    return isinstance(node, ast.Constant) and type(node.value) in {int, float} and node.value != 0


def endless_caches(source: Source) -> Iterator[str]:
    """A cache has a bound: no ``@cache``, no ``lru_cache(maxsize=None)``."""
    for node in functions(source):
        for item in node.decorator_list:
            text = ast.unparse(item).removeprefix("functools.")
            if text in {"cache", "lru_cache(maxsize=None)", "lru_cache(None)"}:
                yield f"{source.path}:{item.lineno}: {node.name}: a cache without a bound"


def lost_cancellations(source: Source) -> Iterator[str]:
    """No ``asyncio.wait_for``: Python 3.11 loses a cancellation that comes with its result."""
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "asyncio.wait_for":
            yield f"{source.path}:{node.lineno}: use asyncio.timeout, for wait_for may not be ended"


def second_writers(source: Source) -> Iterator[str]:
    """One module appends to the store and publishes to the bus; one gives it what to write."""
    for node in source.nodes:
        if not isinstance(node, ast.Attribute) or source.room in {"store", "bus"}:
            continue
        what = f"{ast.unparse(node.value).split('.')[-1].strip('_')}.{node.attr}"
        if source.path != (only := house.ONLY_WRITERS.get(what, source.path)):
            yield f"{source.path}:{node.lineno}: only {only} does {what}"


# -- tests ---------------------------------------------------------------------------------------


def sleeping_tests(source: Source) -> Iterator[str]:
    """A test waits for what it wants, never for time to pass."""
    for node in source.nodes if "sleep" in source.text else ():
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name == "sleep" and ast.unparse(node) != "asyncio.sleep(0)":
            yield f"{source.path}:{node.lineno}: {ast.unparse(node)}; wait for an event instead"


def fixed_ports(source: Source) -> Iterator[str]:
    """A test listens on port 0 and asks which one it got."""
    for node in source.nodes:
        if isinstance(node, ast.keyword) and node.arg in {"port", "http_port", "mqtt_port"}:
            port = node.value
        elif isinstance(node, ast.Tuple) and len(node.elts) == 2 and _is_loopback(node.elts[0]):
            port = node.elts[1]
        else:
            continue
        if isinstance(port, ast.Constant) and isinstance(port.value, int) and port.value:
            yield f"{source.path}:{port.lineno}: the fixed port {port.value}; use 0"


def _is_loopback(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value in {"127.0.0.1", "localhost", "::1"}


# -- the rules, over the whole house -------------------------------------------------------------

Rule = Callable[[Source], Iterator[str]]

EVERYWHERE: tuple[Rule, ...] = (
    long_functions, long_modules, long_lines, bare_ignores,
)  # fmt: skip
IN_APP: tuple[Rule, ...] = (
    undocumented_names, headless_modules, loose_types, module_state, thawed_values, global_logging,
    nameless_bounds, endless_caches, lost_cancellations, second_writers,
)  # fmt: skip
IN_TESTS: tuple[Rule, ...] = (sleeping_tests, fixed_ports)
IN_TEXT: tuple[Rule, ...] = (banned_words, foreign_addresses)

FREE_OF_TEXT_RULES = {
    "LICENSE",
    "requirements.lock",
    "requirements-server.lock",
    "tests/interop/package-lock.json",
    "tests/test_tidy.py",
}
"""The licence and machines' work as they are, and this file, which names what it looks for."""


SAMPLE = "app/rowcast/core/a.py"
"""Where most bad samples stand."""


def _complaints(rule: Rule, files: Sequence[Source]) -> list[str]:
    return [complaint for source in files for complaint in rule(source)]


def _texts() -> list[Source]:
    return [
        Source(relative(path), path.read_text(encoding="utf-8", errors="replace"))
        for path in text_files()
        if relative(path) not in FREE_OF_TEXT_RULES
    ]


def _name(rule: Rule) -> str:
    return rule.__name__


@pytest.mark.heavy
@pytest.mark.parametrize("rule", EVERYWHERE, ids=_name)
def test_everywhere_no(rule):
    expect_none(_complaints(rule, sources(*CODE, "tests")))


@pytest.mark.parametrize("rule", IN_APP, ids=_name)
def test_app_has_no(rule):
    expect_none(_complaints(rule, sources("app/rowcast", "app/rowcast_client", "app/rowcast_lake")))


@pytest.mark.parametrize("rule", IN_TESTS, ids=_name)
def test_tests_have_no(rule):
    expect_none(_complaints(rule, sources("tests")))


@pytest.mark.parametrize("rule", IN_TEXT, ids=_name)
def test_no_file_has(rule):
    expect_none(_complaints(rule, _texts()))


# -- every rule notices --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (long_functions, "app/rowcast/a.py", "def f():\n" + "    x = 1\n" * 60),
        (long_modules, "app/rowcast/a.py", "x = 1\n" * 501),
        (long_lines, "app/rowcast/a.py", "x" * 101),
        (banned_words, "README.md", f"# {BANNED_WORDS[0]}: later"),
        (foreign_addresses, "README.md", "see https://registry.elsewhere.io/simple"),
        (undocumented_names, SAMPLE, "def f():\n    pass"),
        (undocumented_names, SAMPLE, "class A:\n    '''A.'''\n    def f(self): pass"),
        (undocumented_names, SAMPLE, "def f():\n    '''Does it'''"),
        (headless_modules, SAMPLE, '"""Topics"""'),
        (loose_types, SAMPLE, "from typing import Any"),
        (loose_types, "app/rowcast/kernel/a.py", "import typing\nx: typing.Any"),
        (bare_ignores, "app/rowcast/a.py", "x = 1  # type: " + "ignore"),
        (module_state, "app/rowcast/a.py", "_cache = {}"),
        (module_state, "app/rowcast/a.py", "seen: set[str] = set()"),
        (module_state, "app/rowcast/a.py", "SEEN = []\ndef f():\n    SEEN.append(1)"),
        (module_state, "app/rowcast/a.py", "SEEN = {}\ndef f():\n    SEEN[1] = 2"),
        (module_state, "app/rowcast/a.py", "def f():\n    global x"),
        (thawed_values, "app/rowcast/a.py", "@dataclass\nclass A:\n    x: int"),
        (global_logging, "app/rowcast/doors/http/a.py", "logging.basicConfig(level=1)"),
        (nameless_bounds, "app/rowcast/a.py", "deque(maxlen=100)"),
        (nameless_bounds, "app/rowcast/a.py", "wait_for(x, timeout=2 * 60)"),
        (endless_caches, "app/rowcast/a.py", "@cache\ndef f(): pass"),
        (lost_cancellations, "app/rowcast/a.py", "await asyncio.wait_for(event.wait(), SECONDS)"),
        (second_writers, "app/rowcast/doors/http/a.py", "self._store.append(events)"),
        (second_writers, "app/rowcast/kernel/a.py", "bus.publish(event)"),
        (second_writers, "app/rowcast/features/a.py", "self._kernel.committer.submit(writes)"),
        (sleeping_tests, "tests/a.py", "time.sleep(0)"),
        (sleeping_tests, "tests/a.py", "await asyncio.sleep(0.1)"),
        (fixed_ports, "tests/a.py", "serve(port=1883)"),
        (fixed_ports, "tests/a.py", "connect(('127.0.0.1', 1883))"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_bad_sample_is_noticed(rule, path, text):
    assert 1 == len(list(rule(Source(path, text))))


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (foreign_addresses, "a.md", "curl http://127.0.0.1:9926/Dog/1 ws://localhost:9926/"),
        (foreign_addresses, "a.py", "f'http://{host}:{port}' 'http://' + x; http://a.example/"),
        (undocumented_names, SAMPLE, "def _f(): pass\nclass A:\n    '''An A.'''"),
        (loose_types, "app/rowcast/doors/http/a.py", "from typing import Any"),
        (module_state, "app/rowcast/a.py", "NAMES = {'a': 1}\n__all__ = ['b']\nx = NAMES['a']"),
        (nameless_bounds, "app/rowcast/a.py", "wait_for(x, timeout=STOP_SECONDS)\nget(timeout=0)"),
        (second_writers, "app/rowcast/writes/commit.py", "store.commit(events)"),
        (second_writers, "app/rowcast/kernel/write_path.py", "self._committer.submit(writes)"),
        (sleeping_tests, "tests/a.py", "await asyncio.sleep(0)"),
        (fixed_ports, "tests/a.py", "serve(port=0)"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_good_sample_passes(rule, path, text):
    assert [] == list(rule(Source(path, text)))


def test_every_rule_has_a_bad_sample():
    noticed = {case[0] for mark in test_a_bad_sample_is_noticed.pytestmark for case in mark.args[1]}
    assert set() == {*EVERYWHERE, *IN_APP, *IN_TESTS, *IN_TEXT} - noticed


def test_the_scripts_can_be_run():
    scripts = [path for path in (ROOT / "scripts").iterdir() if path.is_file() and not path.suffix]
    assert [] == [relative(path) for path in scripts if not path.stat().st_mode & 0o100]
