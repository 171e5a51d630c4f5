"""The examples of a system, an estimator and a retriever of one's own, together through the real trainer."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.conftest import Run, add_model

FOLDER = Path(__file__).parents[2] / "examples"

EXAMPLES = {
    "custom_system": ("docagent.system=custom_system:SYSTEM", "~docagent.env", "~docagent.env_cpu"),
    "custom_estimator": (
        "docagent.modules=[custom_estimator]",
        "algorithm.adv_estimator=median_baseline",
        "+docagent.advantage.options.decay=0.8",
    ),
    "custom_retriever": (
        "docagent.retriever.kind=custom_retriever:FuzzyRetriever",
        "+docagent.retriever.options.cutoff=55",
    ),
}
"""What their docstrings add to the command line."""

SHORT = (
    "trainer.total_training_steps=2",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
    "trainer.save_freq=-1",
)


def play(folder: Path, workspace: Path, python: Path) -> Run:
    """Two steps of the system under the estimator, with the retriever; the credit of tokens is not kept."""
    add_model(workspace, "vrag_rl")
    examples = (override for example in EXAMPLES.values() for override in example)
    overrides = (*examples, *SHORT, "docagent.credit=false")
    run = Run(folder, workspace, overrides, python, python_path=FOLDER)
    run.finish()
    return run
