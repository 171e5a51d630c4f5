"""A run with a rollout server apart from the trainer, on two GPUs that only Ray counts."""

from pathlib import Path

from tests.e2e.conftest import FAMILY, Run, add_model
from tests.e2e.custom import SHORT

STEPS, UPDATES, QUESTIONS = 2, 2, 4
"""Steps of the run, updates of each, and questions of a step."""
OVERRIDES = (
    "trainer.v1.trainer_mode=docagent_separate_async",
    f"trainer.v1.separate_async.parameter_sync_step={UPDATES}",
    f"data.train_batch_size={QUESTIONS}",
    f"actor_rollout_ref.actor.ppo_mini_batch_size={QUESTIONS // UPDATES}",
    "actor_rollout_ref.rollout.nnodes=1",
    "actor_rollout_ref.rollout.n_gpus_per_node=1",
    "actor_rollout_ref.rollout.checkpoint_engine.backend=docagent_ray",
    "ray_kwargs.ray_init.num_gpus=2",
    f"trainer.total_training_steps={STEPS}",
    "actor_rollout_ref.actor.optim.lr_warmup_steps_ratio=0",  # the first update changes the weights
)


def play(folder: Path, workspace: Path, python: Path) -> Run:
    """Train two steps of two updates each."""
    add_model(workspace, "vrag_rl", python, FAMILY)
    run = Run(folder, workspace, (*SHORT, *OVERRIDES), python)
    run.finish()
    return run
