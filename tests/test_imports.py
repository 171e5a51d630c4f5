from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

import grimp
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

HEAVY = "docagent_rl.training.trainer.modes"
"""Brings in all that a run's processes import."""
PLUGIN = "docagent_rl.training.plugin"
"""verl imports it, and it verl."""
TRAINING = "docagent_rl.training"


def imports() -> dict[str, set[str]]:
    """What each module imports, within functions too, and the packages that it lies in."""
    graph = grimp.build_graph("docagent_rl", include_external_packages=True)
    edges = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    for name in edges:
        parts = name.split(".")
        edges[name] |= {".".join(parts[:k]) for k in range(1, len(parts))}
    edges["verl"].add(PLUGIN)
    return edges


def in_circles(edges: dict[str, set[str]]) -> list[str]:
    """The modules that import themselves by way of others: for these it matters which is imported first."""
    number = {name: n for n, name in enumerate(edges)}
    pairs = [(number[name], number[other]) for name, others in edges.items() for other in others]
    rows, columns = zip(*pairs, strict=True)
    matrix = coo_array(([1] * len(pairs), (rows, columns)), shape=(len(edges), len(edges)))
    labels = connected_components(matrix, connection="strong")[1]
    sizes = Counter(labels)
    return [name for name, label in zip(edges, labels, strict=True) if sizes[label] > 1]


def test_circles_are_found():
    edges = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}
    assert in_circles(edges) == ["b", "c"]


@pytest.mark.slow
def test_modules_of_a_circle_can_each_be_imported_first_and_then_all(warm_python):
    ours = {name: others for name, others in imports().items() if name.startswith(("docagent_rl", "verl"))}
    ours = {name: others & ours.keys() for name, others in ours.items()}
    # only what reaches for verl, or for what does, can meet it half imported
    near = {
        name for name, others in ours.items() if any(other.startswith(("verl", TRAINING)) for other in others)
    }
    first = [name for name in in_circles(ours) if name in near and name != "verl"]
    assert PLUGIN in first
    script = Path(__file__).with_name("import_each.py")
    done = subprocess.run(
        [warm_python, str(script), HEAVY, *sorted(first), "+".join(sorted(ours))],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    failures = json.loads(done.stdout.splitlines()[-1])
    assert not failures, "\n\n".join(f"{name}: {text}" for name, text in failures.items())
