"""The example of a system of one's own, through the real trainer."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.conftest import Run

EXAMPLES = Path(__file__).parents[2] / "examples"


def play(folder: Path, workspace: Path) -> Run:
    """Two steps, as the example's docstring says."""
    overrides = (
        "docagent.system=custom_system:SYSTEM",
        "~docagent.env",
        "~docagent.env_cpu",
        "trainer.total_training_steps=2",
        "trainer.val_before_train=false",
        "trainer.test_freq=-1",
        "trainer.save_freq=-1",
    )
    run = Run(folder, workspace, overrides, python_path=EXAMPLES)
    run.finish()
    return run
