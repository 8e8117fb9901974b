"""No test needs Mosquitto without saying so: `scripts/test quick` runs where there is none."""

import ast
from pathlib import Path

import pytest

MODULES = sorted(Path(__file__).parent.glob("test_*.py"))


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_who_starts_mosquitto_is_marked(module):
    tree = ast.parse(module.read_text())
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert "RemoteBroker" not in names or "NEEDS_MOSQUITTO" in names
