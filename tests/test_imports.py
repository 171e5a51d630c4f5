import importlib
import json
import subprocess
from pathlib import Path

import grimp
import pytest

HEAVY = "docagent_rl.training.trainer.modes"
"""Brings in all that a run's processes import."""
PLUGIN = "docagent_rl.training.plugin"
"""verl imports it, and it verl."""
TRAINING = "docagent_rl.training"


def imports() -> dict[str, set[str]]:
    """Return the imports of each module, including those in functions, and the packages that
    contain it.
    """
    graph = grimp.build_graph("docagent_rl", include_external_packages=True, cache_dir=None)
    edges = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    for name in edges:
        parts = name.split(".")
        edges[name] |= {".".join(parts[:k]) for k in range(1, len(parts))}
    edges["verl"].add(PLUGIN)
    return edges


def reached(edges: dict[str, set[str]], name: str) -> set[str]:
    """Return a module and everything that it imports, directly or not."""
    found, new = set(), {name}
    while new:
        found |= new
        new = set().union(*(edges[each] for each in new)) - found
    return found


@pytest.mark.slow
def test_every_benchmark_can_be_imported():
    root = Path(__file__).parents[1]
    for path in (root / "benchmarks").rglob("*.py"):
        importlib.import_module(".".join(path.relative_to(root).with_suffix("").parts))


@pytest.mark.slow
def test_modules_that_verl_imports_and_that_import_it_can_each_come_first_and_then_all(warm_python):
    ours = {
        name: others
        for name, others in imports().items()
        if name.startswith(("docagent_rl", "verl"))
    }
    ours = {name: others & ours.keys() for name, others in ours.items()}
    # only what reaches for verl, or for what does, can meet it half imported
    near = {
        n
        for n, others in ours.items()
        if any(each.startswith(("verl", TRAINING)) for each in others)
    }
    first = sorted(n for n in near & reached(ours, "verl") - {"verl"} if "verl" in reached(ours, n))
    assert PLUGIN in first
    script = Path(__file__).with_name("import_each.py")
    done = subprocess.run(
        [warm_python, str(script), HEAVY, *first, "+".join(sorted(ours))],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    failures = json.loads(done.stdout.splitlines()[-1])
    assert not failures, "\n\n".join(f"{name}: {text}" for name, text in failures.items())
