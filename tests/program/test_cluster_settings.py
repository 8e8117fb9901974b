"""Settings of a node that cannot be: what is told, and where they are given (K12)."""

import pytest

from rowcast.core.errors import Code, Error
from rowcast.program.config import load_config

HOST = "127.0.0.1"
NODE = {"cluster.name": "home", "cluster.node": "a"}
SECRET = {"ROWCAST_CLUSTER__SECRET": "0123456789abcdef"}


def problem(peers, **settings):
    given = NODE | {"cluster.peers": peers} | settings
    with pytest.raises(Error) as caught:
        load_config(None, SECRET, given)
    assert caught.value.code is Code.INVALID
    return caught.value.message


@pytest.mark.parametrize(
    ("ports", "both"),
    [((6222, 6222, 6224), ("a", "b", 6222)), ((6222, 6230, 6231), ("b", "c", 6231))],
    ids=["the same", "the next one"],
)
def test_two_nodes_at_one_address_are_refused(ports, both):
    """Else one waited for the others for ever: their servers could not both listen there."""
    peers = ",".join(f"{name}={HOST}:{port}" for name, port in zip("abc", ports, strict=True))
    first, second, port = both
    assert problem(peers).startswith(
        f"command line: cluster: the peers {first!r} and {second!r} would both listen at "
        f"{HOST}:{port}: a node uses the next port, too; give nodes of one machine ports that are"
    )


def test_with_an_engine_elsewhere_nodes_use_only_the_next_port():
    engine = {"cluster.engine": "postgresql://owner@db.example/log"}
    peers = f"a={HOST}:6222,b={HOST}:6223,c=10.0.0.2:6222"
    assert load_config(None, SECRET, NODE | engine | {"cluster.peers": peers}).cluster.name
    assert "would both listen at" in problem(f"a={HOST}:6222,b={HOST}:6222", **engine)


def test_what_is_wrong_with_all_together_is_told_where_the_last_of_it_is_given():
    """It was told of the environment variable of the secret, which is right."""
    told = problem(f"b={HOST}:6222")
    assert told == "command line: cluster: the node 'a' is none of the peers; name it with --node"
