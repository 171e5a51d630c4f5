"""A run of two ranks that is killed behind its second checkpoint, and goes on with one rank."""

from pathlib import Path

from docagent_rl.samples.parquet import read_parquet
from tests.e2e.conftest import FAMILY, Run, add_model
from tests.e2e.ranks import TWO_RANKS

STEPS = 3
KILLED_AFTER = 2
BATCH = 4
OVERRIDES = (
    f"data.train_batch_size={BATCH}",
    "data.shuffle=false",
    f"trainer.total_training_steps={STEPS}",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
    "trainer.save_freq=1",
)


def play(folder: Path, workspace: Path, python: Path) -> Run:
    """Kill the run of two ranks, and finish it with one."""
    add_model(workspace, "vrag_rl", python, FAMILY)
    run = Run(folder, workspace, (*OVERRIDES, *TWO_RANKS), python)
    saved = run.run_dir / "checkpoints" / f"global_step_{KILLED_AFTER}" / "manifest.json"
    run.kill_when(saved.is_file)
    run.log.rename(folder / "first.txt")
    run.overrides = OVERRIDES
    run.finish()
    return run


def questions(run: Run) -> list[set[str]]:
    """Return the questions of each step of a run that nothing interrupts."""
    samples = read_parquet(run.workspace / "data" / "train.parquet")
    ids = [sample.question_id for sample in samples]
    return [set(ids[step * BATCH : (step + 1) * BATCH]) for step in range(STEPS)]
