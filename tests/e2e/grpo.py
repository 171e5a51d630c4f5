"""A GRPO run that is killed after its first checkpoint and started again."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.e2e.conftest import Run

STEPS = 3
AGENTS = "- name: misplaced\n  _target_: misplaced.MisplacedLoop\n"


def play(folder: Path, workspace: Path, python: Path) -> Run:
    """Kill, resume, finish; the second start is that of a user, every import included."""
    table = pq.read_table(workspace / "data" / "train.parquet")
    # every fourth question is played by a loop that misplaces an image
    names = ["misplaced" if row % 4 == 3 else "docagent" for row in range(len(table))]
    column = table.column_names.index("agent_name")
    pq.write_table(table.set_column(column, "agent_name", pa.array(names)), folder / "train.parquet")
    (folder / "agents.yaml").write_text(AGENTS)
    overrides = (
        f"data.train_files={folder}/train.parquet",
        "data.shuffle=false",
        "data.val_max_samples=4",
        f"actor_rollout_ref.rollout.agent.agent_loop_config_path={folder}/agents.yaml",
        # micro-batches of one row, so that some hold no image
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1",
        f"trainer.total_training_steps={STEPS}",
        f"trainer.test_freq={STEPS}",
    )
    run = Run(folder, workspace, overrides, python)
    latest = run.run_dir / "checkpoints" / "latest_checkpointed_iteration.txt"
    run.kill_when(latest.is_file)
    run.log.rename(folder / "first.txt")
    run.python = Path(sys.executable)
    run.finish()
    return run
