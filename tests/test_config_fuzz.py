"""Settings that no person would write: a sentence, never a traceback (O1)."""

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from amounts import amount
from rowcast.core.errors import Code, Error
from rowcast.program.config import Config, config_keys, load_config


def refusal(folder, text):
    """Return why a file is refused."""
    file = folder / "rowcast.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(Error) as caught:
        load_config(file, {})
    assert Code.INVALID is caught.value.code
    return caught.value.message


LAUGHS = "\n".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in pairwise("abcdefgh"))


@pytest.mark.parametrize("text", ["http.port: *h", "gateway.brokers: *h", "topics.tables: *h"])
def test_o1_references_are_not_followed_without_end(tmp_path, text):
    """Nine times nine times nine ..., which no memory would hold when it is spelt out."""
    assert "more than 100000 of them" in refusal(tmp_path, f"a: &a [x]\n{LAUGHS}\n{text}\n")


def test_a_long_value_is_shown_by_its_beginning(tmp_path):
    assert 400 > len(refusal(tmp_path, f"http.port: {'x' * 10_000}"))


_YAML = st.recursive(
    st.one_of(
        st.sampled_from(["1", "-1", "1e999", ".nan", "off", "~", "''", "*a", "&a x", "!!int x"]),
        st.sampled_from(["!!bool x", "!!set {a}", "!!binary '='", "2026-99-99", "1:2:3", "0x"]),
        st.text(max_size=6),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.dictionaries(st.text("abc:.-*&?", max_size=5), inner, max_size=3).map(
            lambda found: "{" + ", ".join(f"{key}: {value}" for key, value in found.items()) + "}"
        ),
    ),
    max_leaves=6,
)


@pytest.mark.heavy
@given(
    st.lists(st.tuples(st.sampled_from(sorted(config_keys())), _YAML), min_size=1, max_size=3),
    st.booleans(),
)
@settings(max_examples=amount(long=100, short=25), deadline=None)
def test_o1_any_text_of_yaml_is_taken_or_refused_with_a_sentence(lines, in_file):
    """In a file, and in the environment, where lists and maps are YAML too."""
    text = "\n".join(f"{key}: {value}" for key, value in lines)
    env = {} if in_file else {"ROWCAST_" + k.upper().replace(".", "__"): v for k, v in lines}
    with TemporaryDirectory() as folder:
        file = Path(folder) / "rowcast.yaml"
        file.write_text(text if in_file else "", encoding="utf-8", errors="replace")
        try:
            assert isinstance(load_config(file, env), Config)
        except Error as error:
            assert Code.INVALID is error.code
            said = "ROWCAST_" if env else str(file)
            assert all(said in line for line in error.message.splitlines())


_LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.dates()
)
_ANYTHING = st.recursive(
    _LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5
)
_KEYS = sorted(config_keys())


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from([*_KEYS, "http", "mqtt.x", "", ".", "a..b"]), _ANYTHING))
@example({"cluster.tls.certificate": "a.pem"})
@settings(max_examples=amount(long=300, short=75), deadline=None)
def test_whatever_is_set_is_taken_or_refused_with_its_place(given_settings):
    """O1: fuzzed configuration; a mistake is a sentence that names a setting."""
    try:
        config = load_config(None, {}, given_settings)
    except Error as error:
        assert Code.INVALID is error.code
        assert any(name in error.message for name in given_settings)
    else:
        assert isinstance(config, Config)
