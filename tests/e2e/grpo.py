"""A GRPO run that is killed while it saves its second checkpoint and loses its tracker, is killed
again after its last checkpoint, and started a third time.
"""

import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from docagent_rl.rollout.trajectory import Trajectory
from tests.e2e.conftest import FAMILY, Run, add_model

STEPS = 3
VALIDATED = 4
"""Questions of a validation; the last one is too long for any prompt."""
AGENTS = "- name: misplaced\n  _target_: misplaced.MisplacedLoop\n"


def play(folder: Path, workspace: Path, python: Path) -> Run:
    """Kill, resume, kill, finish."""
    add_model(workspace, "vrag_rl", python, FAMILY)
    table = pq.read_table(workspace / "data" / "train.parquet")
    # every fourth question is played by a loop that misplaces an image
    names = ["misplaced" if row % 4 == 3 else "docagent" for row in range(len(table))]
    column = table.column_names.index("agent_name")
    pq.write_table(
        table.set_column(column, "agent_name", pa.array(names)), folder / "train.parquet"
    )
    (folder / "agents.yaml").write_text(AGENTS)
    pq.write_table(
        with_unplayable(pq.read_table(workspace / "data" / "val.parquet")), folder / "val.parquet"
    )
    overrides = (
        f"data.train_files={folder}/train.parquet",
        f"data.val_files={folder}/val.parquet",
        "data.shuffle=false",
        f"actor_rollout_ref.rollout.agent.agent_loop_config_path={folder}/agents.yaml",
        # micro-batches of one row, so that some hold no image
        "actor_rollout_ref.actor.use_dynamic_bsz=false",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1",
        f"trainer.total_training_steps={STEPS}",
        f"trainer.test_freq={STEPS}",
    )
    run = Run(folder, workspace, overrides, python)
    checkpoints = run.run_dir / "checkpoints"
    run.kill_when((checkpoints / "global_step_2").exists, every=0.005)
    # the save of a tiny model can be quicker than the kill
    (checkpoints / "global_step_2" / "manifest.json").unlink(missing_ok=True)
    (checkpoints / "latest_checkpointed_iteration.txt").write_bytes(b"")
    run.log.rename(folder / "first.txt")
    run.kill_when(partial(is_saved_only, run.run_dir), every=0.005)
    run.log.rename(folder / "second.txt")
    run.finish()
    return run


def played_by(agent: str, run: Run, trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """Return the trajectories of an agent loop, by the questions that belong to it."""
    rows = pq.read_table(run.folder / "train.parquet").to_pylist()
    names = {json.loads(row["sample"])["question_id"]: row["agent_name"] for row in rows}
    return [each for each in trajectories if names[each.question_id] == agent]


def is_saved_only(run_dir: Path) -> bool:
    """Return whether the last checkpoint is complete and the validation after it is not done."""
    tracker = run_dir / "checkpoints" / "latest_checkpointed_iteration.txt"
    return (
        tracker.read_text() == str(STEPS)
        and not (run_dir / "metrics" / f"val-{STEPS}.json").exists()
    )


def with_unplayable(table: pa.Table) -> pa.Table:
    """Write the first questions of a file, the last of them made too long."""
    table = table.slice(0, VALIDATED)
    samples = [json.loads(text) for text in table["sample"].to_pylist()]
    samples[-1]["question"] += " why?" * 2000
    lines = pa.array([json.dumps(sample) for sample in samples])
    return table.set_column(table.column_names.index("sample"), "sample", lines)
