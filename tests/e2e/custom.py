"""A user's scans, system, estimator, retriever and reward, all in one run of the trainer.

The model is of GLM: placeholders that the server gets repeated, and a forward pass of verl that has
to be patched.
"""

from pathlib import Path

from docagent_rl.lab.tiny.workspace import DemoPaths
from tests.e2e.conftest import Run, add_model
from tests.e2e.scanned import scan

FAMILY = "glm4v"
FOLDER = Path(__file__).parents[2] / "examples"

EXAMPLES = {
    "custom_system": ("docagent.system=custom_system:SYSTEM",),
    "custom_estimator": (
        "docagent.modules=[custom_estimator]",
        "algorithm.adv_estimator=median_baseline",
        "+docagent.advantage.options.decay=0.8",
    ),
    "custom_retriever": (
        "docagent.retriever.kind=custom_retriever:FuzzyRetriever",
        "+docagent.retriever.options.cutoff=55",
    ),
    "custom_reward": (
        "reward.custom_reward_function.path=pkg://custom_reward",
        "docagent.reward_function.weight=0.5",
        "+reward.custom_reward_function.reward_kwargs.most_turns=6",
    ),
}
"""Overrides that their docstrings add to the command line."""

SHORT = (
    "trainer.total_training_steps=2",
    "trainer.val_before_train=false",
    "trainer.test_freq=2",
    "trainer.save_freq=-1",
)


def play(folder: Path, demo: Path, python: Path) -> Run:
    """Play two steps of the system under the estimator, on scans of some reports, without recording
    credit.
    """
    add_model(demo, "vrag_rl", python, FAMILY)
    workspace = DemoPaths(folder / "workspace")
    scan(DemoPaths(demo), workspace)
    examples = (override for example in EXAMPLES.values() for override in example)
    # warmed up on the same pages, when they had text
    path = DemoPaths(demo).model("vrag_rl", FAMILY)
    model = (f"docagent.model_family={FAMILY}", f"actor_rollout_ref.model.path={path}")
    run = Run(
        folder,
        workspace.workspace,
        (*examples, *SHORT, *model, "docagent.credit=false"),
        python,
        python_path=FOLDER,
        recipe="base",
    )
    run.finish()
    return run
