"""`tests/e2e/nodes.py` asks real nodes."""

from __future__ import annotations

from docagent_rl.training.nodes.check import Node, told, usable_nodes
from docagent_rl.training.nodes.fingerprint import Fingerprint
from docagent_rl.training.nodes.sight import Sight

A, B, C = (Node(letter * 40, f"10.0.0.{number}") for number, letter in enumerate("abc", 1))
STORE = "docagent.store=/w/store"
OLD, NEW = Fingerprint("0" * 64, "10 documents"), Fingerprint("1" * 64, "12 documents")


def test_every_problem_of_every_node_is_told():
    assert told({A: Sight(seen={STORE: NEW}), B: Sight(seen={STORE: NEW})}) is None
    lacks = ("docagent.prompt=/p: No such file", "the environment variable K is not set")
    sights = {A: Sight(seen={STORE: NEW}), B: Sight(lacks, {STORE: OLD}), C: Sight((f"{STORE}: gone",))}
    lines = told(sights).splitlines()
    assert lines[0].startswith("3 ")
    assert f"  {B}: {lacks[0]}" in lines
    assert f"  {C}: {STORE}: gone" in lines
    difference = f"12 documents, 11111111 on {A}; 10 documents, 00000000 on {B}"
    assert any(STORE in line and difference in line for line in lines)
    assert str(A) == "10.0.0.1 (aaaaaaaa)"


def test_nodes_where_nothing_can_be_placed_are_not_asked():
    nodes = {"b": {"CPU": 4}, "a": {"GPU": 8}, "c": {"CPU": 4}, "d": {"memory": 4}}
    rows = [
        {"NodeID": f"of {name}", "NodeManagerAddress": name, "Alive": name != "c", "Resources": resources}
        for name, resources in nodes.items()
    ]
    assert usable_nodes(rows) == [Node("of a", "a"), Node("of b", "b")]
