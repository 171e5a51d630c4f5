"""A workspace in which runs of every system can start."""

import pytest

from docagent_rl.checks.preflight import check
from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.samples.parquet import write_parquet
from tests.workspaces import long_workspace  # noqa: F401  a fixture

RECIPES = {
    "vrag_rl": "vrag_rl_qwen2_5_vl_7b",
    "alden": "alden_qwen2_5_vl_7b",
    "doc_v_star": "doc_v_star_qwen2_5_vl_7b",
    "mm_doc_r1": "mm_doc_r1_qwen3_8b",
    "unidoc_rl": "unidoc_rl_qwen2_5_vl_7b",
}


@pytest.fixture(scope="session")
def workspace(world, tmp_path_factory):
    """A workspace with documents, questions and a tiny model for every system."""
    from docagent_rl.lab.tiny.model import build_tiny_model

    root = tmp_path_factory.mktemp("workspace")
    for name in ("store", "index"):
        (root / name).symlink_to(world.root / name)
    for split in ("train", "val"):
        write_parquet(world.samples, root / "data" / f"{split}.parquet")
    build_tiny_model(root / "models" / "tiny_vrag_rl_qwen2_5_vl")
    build_tiny_model(root / "models" / "tiny_mm_doc_r1_qwen3", family="qwen3")
    for system in RECIPES.keys() - {"vrag_rl", "mm_doc_r1"}:
        model = root / "models" / f"tiny_{system}_qwen2_5_vl"
        model.symlink_to(root / "models" / "tiny_vrag_rl_qwen2_5_vl")
    return root


@pytest.fixture(scope="session")
def config(workspace):
    """Return the configuration of a run of a system, as the command line composes it."""

    def make(*overrides, system="vrag_rl"):
        places = [f"docagent.workspace={workspace}", "docagent.provision=null"]
        return composed_recipe(RECIPES[system], ["+profile=cpu", *places, *overrides])

    return make


@pytest.fixture(scope="session")
def checked(config):
    """Return a function that checks all that is checked of a system's run before it starts."""
    return lambda *overrides, system="vrag_rl": check(config(*overrides, system=system))
