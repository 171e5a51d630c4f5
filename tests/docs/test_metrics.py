"""Every number that a run writes is explained in docs/metrics.md."""

import ast
import re
from pathlib import Path

from docagent_rl.actions.base import InvalidReason
from docagent_rl.rollout.evidence import STAGES, Branch
from docagent_rl.rollout.trajectory import MaskReason
from docagent_rl.systems.doc_v_star.actions import Fault
from docagent_rl.training.trainer.summary import summarise

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
SOURCES = (
    "envs/base.py",
    "envs/turn_log.py",
    "envs/search_log.py",
    "training/serving/image_cache.py",
    *(f"systems/{name}.py" for name in ("vrag_rl/env", "unidoc_rl/env")),
    *(f"systems/{name}/state.py" for name in ("alden", "doc_v_star", "mm_doc_r1")),
)
MAKERS = frozenset({"metrics", "common_metrics", "_retriever_metrics", "_per_action", "gauges"})


def expanded(name: str) -> list[str]:
    """Return the names that `a/{b,c}` stands for."""
    found = re.search(r"\{([^}]+)\}", name)
    if found is None:
        return [name]
    return [
        whole
        for part in found[1].split(",")
        for whole in expanded(name[: found.start()] + part + name[found.end() :])
    ]


NAMED = {each for name in re.findall(r"`([^`]+)`", PAGE) for each in expanded(name)}


def names_in(source: str) -> set[str]:
    """Return the constant keys of the dictionaries in functions that return numbers."""
    tree = ast.parse((ROOT / "docagent_rl" / source).read_text(encoding="utf-8"))
    functions = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in MAKERS
    ]
    dictionaries = [
        node for each in functions for node in ast.walk(each) if isinstance(node, ast.Dict)
    ]
    return {
        key.value
        for each in dictionaries
        for key in each.keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def is_explained(name: str) -> bool:
    return bool({name, f"docagent/{name}", f"workers/{name}"} & NAMED)


def test_every_number_of_an_environment_is_explained():
    for source in SOURCES:
        names = names_in(source)
        assert names, source
        assert {name for name in names if not is_explained(name)} == set(), source


def test_every_number_of_a_step_is_explained():
    names = {name.removeprefix("docagent/") for name in summarise([], missing=0)}
    names |= {f"masked/{reason.value}" for reason in MaskReason} | {"masked/turns"}
    names |= {f"invalid/{reason.value}" for reason in InvalidReason}
    names |= {f"fault/{fault.value}" for fault in Fault}
    names |= {stage.value for stage in STAGES[1:]} | {branch.value for branch in Branch}
    assert {name for name in names if not is_explained(name)} == set()
