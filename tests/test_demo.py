from __future__ import annotations

import pytest
from transformers import AutoConfig

from docagent_rl.commands.demo import _systems
from docagent_rl.data.synth import SynthSettings
from docagent_rl.data.synth.settings import Difficulty
from docagent_rl.demo import DemoPaths, prepare_demo
from docagent_rl.errors import UserError
from docagent_rl.systems import SYSTEMS

REPORTS = SynthSettings(documents=4, seed=5, difficulties=(Difficulty.EASY,))
BRIEF = {"short_steps": 1, "full_steps": 1, "pool": 2, "batch_size": 1}


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    workspace = tmp_path_factory.mktemp("demo") / "workspace"

    def make(system, **more):
        return prepare_demo(workspace, system=system, warm_up=BRIEF, synthetic=REPORTS, **more)

    return make


def test_each_system_has_a_model_of_its_own(demo):
    report = demo("alden")
    paths = report.paths
    assert paths.missing("alden") == []
    assert paths.missing("mm_doc_r1") == [paths.workspace / "models" / "tiny_mm_doc_r1" / "config.json"]
    assert report.documents == 4
    assert report.questions["train"] > 0

    before = (paths.model("alden") / "model.safetensors").stat()
    demo("mm_doc_r1")
    demo("alden")
    assert paths.missing("mm_doc_r1") == []
    assert (paths.model("alden") / "model.safetensors").stat().st_mtime_ns == before.st_mtime_ns
    assert AutoConfig.from_pretrained(paths.model("alden")).model_type == "qwen2_5_vl"
    weights = {(paths.model(name) / "model.safetensors").read_bytes() for name in ("alden", "mm_doc_r1")}
    assert len(weights) == 2


def test_the_environment_is_the_runs_own(demo):
    with pytest.raises(UserError, match=r"docagent\.env\.max_turns"):
        demo("alden", env={"max_turns": 0})


def test_a_system_without_a_script_borrows_a_model(demo):
    paths = demo("mine:SYSTEM", env={"whatever": 1}).paths
    assert paths.missing("mine:SYSTEM") == []


def test_an_empty_workspace_lacks_everything(tmp_path):
    assert len(DemoPaths(tmp_path).missing("vrag_rl")) == 5


def test_systems_of_the_command():
    assert _systems(["all"]) == list(SYSTEMS)
    assert _systems(["alden", "alden", "vrag_rl"]) == ["alden", "vrag_rl"]
    with pytest.raises(UserError, match="there is no system 'alder'"):
        _systems(["alder"])
