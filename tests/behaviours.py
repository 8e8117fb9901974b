"""The behaviours that the tests prove, by id: collected from tests, compared with the document.

A behaviour has an id, a letter and a number such as C9. ``docs/behaviours.md`` says in one line
what it is; a test proves it when its name (``test_k6_...``), its docstring, or a comment or the
docstring of its module names the id. Code and documents may name ids, too, but only those of the
document. ``scripts/behaviours`` shows what is found here.
"""

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Self

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "behaviours.md"

_ID = re.compile(r"(?<![\w$#/.+-])([A-Z])(\d{1,2})(?:(?: to |-)([A-Z])(\d{1,2}))?(?![\w-])")
_NAMED = re.compile(r"def test_[a-z]\d{1,2}_")
_ROW = re.compile(r"^\| ([A-Z]\d{1,2}) \| (.+) \|$", re.MULTILINE)
_GROUP = re.compile(r"^## (.+)$", re.MULTILINE)
_NOT_PROVEN = "Not proven by a test"


def ids_in(text: str) -> Iterator[str]:
    """Yield the ids that a text names; ``E17 to E20`` names four."""
    for letter, first, last_letter, last in _ID.findall(text):
        if last and last_letter == letter:
            yield from (f"{letter}{number}" for number in range(int(first), int(last) + 1))
            continue
        yield f"{letter}{first}"
        if last:
            yield f"{last_letter}{last}"


def order(name: str) -> tuple[str, int]:
    """Return what sorts ids: C2 before C10."""
    return name[0], int(name[1:])


# -- what Python files say -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Said:
    """A comment or a docstring, and the test that it belongs to, if it is a test's own."""

    text: str
    test: str | None = None


@lru_cache(maxsize=5_000)
def said_in(source: str) -> tuple[Said, ...]:
    """Return the comments and docstrings of a module that name an id; those of attributes, too."""
    return tuple(said for said in _said_in(source) if _ID.search(said.text))


def _said_in(source: str) -> Iterator[Said]:
    if not (_ID.search(source) or _NAMED.search(source)):
        return  # nothing to parse it for
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for part in body if isinstance(body, list) else ():
            if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant):
                yield Said(str(part.value.value), _name_of_test(node))
        if named := re.match(r"test_([a-z]\d{1,2})_", _name_of_test(node) or ""):
            yield Said(named[1].upper(), _name_of_test(node))
    if not any(_ID.search(line.partition("#")[2]) for line in source.splitlines()):
        return  # most modules: the tokenizer takes far longer than all the rest
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Said(token.string)


def _name_of_test(node: ast.AST) -> str | None:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
        return node.name
    return None


def proofs(root: Path = ROOT) -> dict[str, set[str]]:
    """Return the tests that prove each behaviour: ``file`` for a whole module, ``file::test``."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted((root / "tests").rglob("*.py")):
        source = path.read_text()
        if path == Path(__file__) or "def test_" not in source:
            continue
        name = path.relative_to(root).as_posix()
        for said in said_in(source):
            for each in ids_in(said.text):
                found[each].add(f"{name}::{said.test}" if said.test else name)
    return dict(found)


def mentions(root: Path = ROOT) -> dict[str, set[str]]:
    """Return the files that name an id in a comment, a docstring or a text."""
    found: dict[str, set[str]] = defaultdict(set)
    for folder in ("app", "bench", "resources", "scripts", "tests"):
        for path in sorted((root / folder).rglob("*.py")):
            for said in said_in(path.read_text()):
                for each in ids_in(said.text):
                    found[each].add(path.relative_to(root).as_posix())
    return dict(found)


def named_in_documents(root: Path = ROOT) -> dict[str, set[str]]:
    """Return the documents that name an id outside of quotations."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted(
        [*(root / "docs").rglob("*.md"), *root.glob("*.md"), *root.glob("app/*.md")]
    ):
        text = re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(), flags=re.DOTALL)
        for each in ids_in(text) if path.name != PAGE.name else ():
            found[each].add(path.relative_to(root).as_posix())
    return dict(found)


# -- the document ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Page:
    """docs/behaviours.md: its first lines, and each heading with the rows below it."""

    head: str
    groups: dict[str, dict[str, str]]

    @classmethod
    def read(cls, text: str) -> Self:
        """Take the document apart."""
        parts = _GROUP.split(text)
        bodies = zip(parts[1::2], parts[2::2], strict=True)
        return cls(parts[0], {title: dict(_ROW.findall(body)) for title, body in bodies})

    def text(self) -> str:
        """Return the document as it is to be: each group in the order of its ids."""
        return self.head + "\n".join(
            f"## {title}\n\n| id | behaviour |\n|---|---|\n"
            + "".join(f"| {name} | {rows[name]} |\n" for name in sorted(rows, key=order))
            for title, rows in self.groups.items()
        )

    def rows(self, *, proven: bool) -> dict[str, str]:
        """Return the behaviours of the page that tests prove, or those that none does."""
        return {
            name: text
            for title, rows in self.groups.items()
            if proven is (title != _NOT_PROVEN)
            for name, text in rows.items()
        }


def mistakes(root: Path = ROOT) -> Iterator[str]:
    """Say where tests, code, documents and ``docs/behaviours.md`` do not agree."""
    text = (root / "docs" / "behaviours.md").read_text()
    page = Page.read(text)
    proven, unproven, tests = page.rows(proven=True), page.rows(proven=False), proofs(root)
    if text != page.text():
        yield "docs/behaviours.md is not in order: run scripts/behaviours --write"
    if len(proven | unproven) != sum(len(rows) for rows in page.groups.values()):
        yield "docs/behaviours.md has an id twice"
    for name in proven.keys() - tests.keys():
        yield f"{name} has no test: name it in the docstring of the test that proves it"
    for name in unproven.keys() & tests.keys():
        yield f"{name} has a test: take it from the rows that are not proven"
    for source in (mentions(root), named_in_documents(root)):
        for name in source.keys() - (proven | unproven).keys():
            yield f"{name} is in {min(source[name])} and has no row in docs/behaviours.md"
