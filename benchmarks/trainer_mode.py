"""Measure the seconds that a step of a stock GRPO run takes in our trainer mode and in verl's.

python -m benchmarks.trainer_mode --steps 12

Both modes run the recipe `vrag_rl_qwen2_5_vl_7b` under the CPU profile with verl's own `grpo`, the
same agent loop and the same model. Sampling is left out: it waits in pauses of two seconds, and our
mode does none of it. The time that our mode adds is measured twice: as the difference between the
two runs, which noise of the machine blurs, and as the time spent in the methods that the mode
overrides, less that in verl's methods which they call.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.common import show
from docagent_rl.lab.tiny.demo import prepare_demo
from tools.warm import WarmPython

PHASES = ("old_log_prob", "ref", "adv", "update_actor")
OWN = "docagent/overhead_s"


def main() -> None:
    """Run both modes and print how they compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--steps", type=int, default=12, help="steps of a run; the first two are left out"
    )
    parser.add_argument("--workspace", type=Path, help="a demo workspace; by default a new one")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, WarmPython() as warm:
        workspace = chosen.workspace or Path(folder) / "workspace"
        prepare_demo(workspace)
        runs = {
            mode: run(warm.executable, mode, workspace, Path(folder) / mode, chosen.steps)
            for mode in ("sync", "docagent_sync")
        }
    rows = []
    for name, parts in [*((phase, (phase,)) for phase in PHASES), ("all of these", PHASES)]:
        theirs, ours = (median(seconds(step, parts) for step in run) for run in runs.values())
        rows.append([name, f"{theirs:.3f}", f"{ours:.3f}", f"{ours / theirs - 1:+.1%}"])
    show("Seconds a step", ["phase", "sync", "docagent_sync", "difference"], rows)
    own = median(step[OWN] for step in runs["docagent_sync"])
    step = median(step["timing_s/step"] for step in runs["docagent_sync"])
    print(f"the mode's own methods: {own * 1000:.1f} ms a step of {step:.2f} s, {own / step:.2%}")


def seconds(step: dict[str, float], phases: Sequence[str]) -> float:
    """Return the seconds that a step spent in some phases."""
    return sum(step[f"timing_s/{phase}"] for phase in phases)


def run(
    python: Path, mode: str, workspace: Path, folder: Path, steps: int
) -> list[dict[str, float]]:
    """Train in a mode, and return the metrics of all steps but the first two.

    Args:
        python: the executable of a warm Python.
        mode: verl's `trainer_mode`.
        workspace: the demo workspace.
        folder: the run's folder.
        steps: the number of steps.
    """
    command = [
        python,
        *("-m", "verl.trainer.main_ppo"),
        *("--config-name", "vrag_rl_qwen2_5_vl_7b"),
        "+profile=cpu",
        f"trainer.v1.trainer_mode={mode}",
        "algorithm.adv_estimator=grpo",
        "docagent.modules=[benchmarks.mode_clock]",
        "docagent.console=full",
        f"docagent.workspace={workspace.resolve()}",
        f"docagent.run_dir={folder}",
        f"trainer.total_training_steps={steps}",
        "trainer.val_before_train=false",
        "trainer.test_freq=-1",
        "trainer.save_freq=-1",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"the run in mode {mode} failed:\n{(done.stdout + done.stderr)[-3000:]}")
    metrics = []
    for line in done.stdout.splitlines():
        if re.search(r"\bstep:\d+ - ", line):
            # verl's console logger writes "name:value - name:value"
            pairs = re.findall(r"([\w/@.-]+):(-?[\d.]+(?:e[+-]?\d+)?)(?: - |$)", line)
            metrics.append({name: float(value) for name, value in pairs})
    if len(metrics) != steps:
        raise SystemExit(f"the run in mode {mode} logged {len(metrics)} of {steps} steps")
    return metrics[2:]


if __name__ == "__main__":
    main()
