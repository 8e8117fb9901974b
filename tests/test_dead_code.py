"""No dead code, which a single file cannot show: modules that nobody imports, names nobody uses."""

import ast
import re
from collections.abc import Iterator, Sequence

import pytest

from house import CODE, STARTED_BY_NAME, Source, assigned, expect_none, sources

FOR_TESTS = {
    "MemoryStore": "the store that the kernel's tests run on",
    "config_keys": "what the manual is compared with",
}
"""Public names that only tests use, with the reason."""


def dead_modules(files: Sequence[Source]) -> Iterator[str]:
    """Every module is imported by another one."""
    imported: set[str] = set()
    for source in files:
        for node in source.nodes:
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported |= {node.module} | {f"{node.module}.{item.name}" for item in node.names}
    for source in files:
        if source.is_package or not source.path.startswith("app/rowcast/"):
            continue
        if source.module not in imported | STARTED_BY_NAME:
            yield f"{source.path}: nobody imports it; remove it or use it"


def unused_names(files: Sequence[Source]) -> Iterator[str]:
    """Every public name of a module is used outside tests, by another line of code."""
    uses: dict[str, int] = {}
    for source in files:
        for node in source.nodes:
            for name in _mentions(node):
                uses[name] = uses.get(name, 0) + 1
    for source in files:
        if source.path.startswith("app/rowcast/") and source.module not in STARTED_BY_NAME:
            for name, line in _defined(source.tree):
                if name not in uses and name not in FOR_TESTS:
                    yield f"{source.path}:{line}: nobody uses {name}; remove it or use it"


def _mentions(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from re.findall(r"\w+", node.value) if len(node.value) < 200 else ()


def _defined(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in tree.body:
        name = getattr(node, "name", "") or assigned(node)[0]
        decorated = bool(getattr(node, "decorator_list", [])) and not isinstance(node, ast.ClassDef)
        if name and not name.startswith("_") and not decorated:
            yield name, node.lineno


@pytest.mark.heavy
def test_no_dead_module():
    expect_none(list(dead_modules(sources(*CODE))))


@pytest.mark.heavy
def test_no_unused_public_name():
    expect_none(list(unused_names(sources(*CODE))))


def test_a_dead_module_is_noticed():
    files = [Source(f"app/rowcast/x/{name}.py", "from rowcast.x import a") for name in "ab"]
    assert ["app/rowcast/x/b.py: nobody imports it; remove it or use it"] == [*dead_modules(files)]


def test_an_unused_name_is_noticed():
    files = [Source("app/rowcast/core/a.py", "def f(): pass\ndef g(): pass\nX = g()")]
    assert 2 == len(list(unused_names(files)))
