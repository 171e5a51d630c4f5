"""No patch is applied only in part: each module that it changes is changed by its own import."""

import json
import subprocess
import sys

import pytest

from docagent_rl.patches import ALL_PATCHES
from docagent_rl.training.patching import PatchState, patch_status

NO_FUNCTION = {
    "vllm",  # root_logger_level sets a variable
    "importlib.metadata",  # where vLLM is not installed
    # log_without_flush puts a logger in the place of another
    "verl.trainer.ppo.v1.trainer_separate_async",
}
"""Modules in which no function of ours is put."""


@pytest.mark.slow
def test_a_module_imported_alone_has_the_changes_that_it_has_beside_all_others():
    command = [sys.executable, "-m", "tests.patches.own_import"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    reports = [line for line in done.stdout.splitlines() if line.startswith("REPORT ")]
    assert reports, done.stderr[-2000:]
    found = json.loads(reports[0].removeprefix("REPORT "))
    assert found["alone"] == found["together"]
    assert {name for name, names in found["alone"].items() if not names} <= NO_FUNCTION
    needed = {each.name for each in patch_status() if each.state is not PatchState.NOT_NEEDED}
    assert set(found["alone"]) == {
        module for patch in ALL_PATCHES if patch.name in needed for module in patch.modules
    }
    assert "flash_attn_varlen_func" in found["alone"]["verl.models.transformers.glm4v"]
