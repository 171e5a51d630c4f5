"""The examples of a system and of an estimator of one's own, through the real trainer."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.conftest import Run

FOLDER = Path(__file__).parents[2] / "examples"

EXAMPLES = {
    "custom_system": ("docagent.system=custom_system:SYSTEM", "~docagent.env", "~docagent.env_cpu"),
    "custom_estimator": (
        "docagent.modules=[custom_estimator]",
        "algorithm.adv_estimator=median_baseline",
        "+docagent.advantage.options.decay=0.8",
    ),
}
"""What their docstrings add to the command line."""

MODE = {
    "custom_system": "docagent_sync",
    "custom_estimator": "docagent_colocate_async",
}
"""Each in another trainer mode; separate_async needs accelerators for its weight transfer."""

SHORT = (
    "trainer.total_training_steps=2",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
    "trainer.save_freq=-1",
)


def play(name: str, folder: Path, workspace: Path, python: Path) -> Run:
    """Two steps."""
    overrides = (*EXAMPLES[name], *SHORT, f"trainer.v1.trainer_mode={MODE[name]}")
    run = Run(folder, workspace, overrides, python, python_path=FOLDER)
    run.finish()
    return run
