"""Try every part of training with a tiny model of every family on a CPU: a table of docs/models.md.

python -m tools.families WORKSPACE [FAMILY ...]

This takes 5 to 10 minutes per family. If the workspace does not exist, a demo is made in it. Each
part is a separate run whose log stays in `WORKSPACE/families/FAMILY`: two steps of RL, two with
LoRA, supervised steps on the oracle's trajectories, and an evaluation of the RL checkpoint.
Additional settings of a family are in `MORE`. `tools.layouts` prints the table of layouts.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from docagent_rl.lab.tiny.workspace import DemoPaths
from docagent_rl.models import Family, families, get_family
from docagent_rl.rollout.trajectory import read_trajectories
from tests.e2e.conftest import Run, add_model, make_demo
from tests.e2e.custom import SHORT
from tests.e2e.identity import agreement

PYTHON = Path(sys.executable)
ROLLOUT = "actor_rollout_ref.rollout"
DELTA_NET = (f"{ROLLOUT}.dtype=bfloat16", f"{ROLLOUT}.enable_prefix_caching=false")
MORE = {
    "qwen3_5": DELTA_NET,
    "qwen3_5_moe": DELTA_NET,
    "gemma4": ("actor_rollout_ref.model.use_fused_kernels=false",),
    "internvl": ("data.max_response_length=1792", f"{ROLLOUT}.max_model_len=3328"),
}
SFT = (
    "data.train_batch_size=8",
    "data.train_max_samples=8",
    "data.val_max_samples=8",
    "trainer.total_training_steps=4",
    "trainer.save_freq=4",
    "trainer.test_freq=4",
    "optim.lr=2e-3",
    "optim.lr_scheduler_type=constant",
)
STEPS = 2


def main(workspace: Path, names: Sequence[str]) -> None:
    """Print a row of Markdown for each family."""
    if not workspace.exists():
        make_demo(workspace, None, PYTHON)
    print(
        "| family | RL: largest, mean difference | LoRA | supervised | evaluated "
        "|\n|---|---|---|---|---|"
    )
    for name in names or [family.name for family in families()]:
        parts = Parts(workspace, get_family(name))
        cells = [tried(part) for part in (parts.rl, parts.lora, parts.sft, parts.evaluation)]
        print("|", " | ".join([f"`{name}`", *cells]), "|", flush=True)


def tried(part: Callable[[], str]) -> str:
    """Return the result of a part, or the last line of its error."""
    try:
        return part()
    except (AssertionError, FileNotFoundError) as error:
        return f"failed: {str(error).strip().splitlines()[-1][:120]}"


class Parts:
    """The parts of a family, each in its own folder."""

    def __init__(self, workspace: Path, family: Family) -> None:
        self.family = family
        self.folder = workspace / "families" / family.name
        self.system = "mm_doc_r1" if family.vision is None else "vrag_rl"
        add_model(workspace, self.system, PYTHON, family.name)
        self.workspace = workspace
        self.model = DemoPaths(workspace).model(self.system, family.name)
        of_paper = family.name == "qwen2_5_vl"  # other families write boxes in thousandths
        visual = "vrag_rl_qwen2_5_vl_7b" if of_paper else "vrag_rl_qwen3_vl_4b"
        self.recipe = visual if self.system == "vrag_rl" else "mm_doc_r1_qwen3_4b_grpo"
        self.options = (
            f"docagent.model_family={family.name}",
            f"actor_rollout_ref.model.path={self.model}",
        )

    def rl(self) -> str:
        """Train for two steps, save the last one, and compare log-probs of server and trainer."""
        return self._trained("rl", f"trainer.save_freq={STEPS}")

    def lora(self) -> str:
        """Train for two steps with an adapter, and compare log-probs of server and trainer."""
        return self._trained("lora", "+lora=language")

    def _trained(self, name: str, *overrides: str) -> str:
        more = MORE.get(self.family.name, ())
        run = Run(
            self.folder / name,
            self.workspace,
            (*SHORT, *self.options, *more, *overrides),
            PYTHON,
            recipe=self.recipe,
        )
        if not (run.run_dir / "trajectories" / f"{STEPS}.jsonl").exists():
            run.finish()
        steps = [path for step in range(1, STEPS + 1) for path in run.trajectories(step)]
        found = agreement(steps)
        return f"{found.largest:.1e}, {found.mean:.1e} ({found.tokens:,} tokens)"

    def sft(self) -> str:
        """Train for four steps on the oracle's trajectories; return the first and last loss."""
        folder = self.folder / "sft"
        log = self.folder / "sft.txt"
        kept = self.folder / "collected"
        rows = self.folder / "rows"
        data = self.workspace / "data" / "train.parquet"
        here = ("--", "+profile=cpu", f"docagent.workspace={self.workspace}", *self.options)
        log.parent.mkdir(parents=True, exist_ok=True)
        if not kept.exists():
            played = ("--data", data, "--out", kept, "--player", "oracle", "--limit", "40")
            logged(log, "-m", "docagent_rl.cli", "collect", self.recipe, *played, *here)
        store = ("--store", self.workspace / "store", "--out", rows / "train.parquet")
        made = (kept / "kept.jsonl", "--model", self.model, *store)
        logged(log, "-m", "docagent_rl.cli", "data", "sft", *made)
        where = (f"model.path={self.model}", f"docagent.workspace={self.workspace}")
        files = (f"data.train_files={rows}/train.parquet", f"data.val_files={rows}/train.parquet")
        config = (
            "--config-name",
            "sft_vrag_rl_qwen2_5_vl_7b",
            "+profile=cpu",
            f"docagent.system={self.system}",
        )
        trainer = ("-m", "verl.trainer.sft_trainer", *config, *SFT)
        family = f"docagent.model_family={self.family.name}"
        tower = f"docagent.freeze_vision_tower={str(self.family.vision is not None).lower()}"
        logged(log, *trainer, family, tower, *where, *files, f"docagent.run_dir={folder}")
        losses = re.findall(r"^step \S+ +loss ([\d.]+)", log.read_text(errors="replace"), re.M)
        assert losses, "no loss in the log"
        return f"{float(losses[0]):.2f} to {float(losses[-1]):.2f}"

    def evaluation(self) -> str:
        """Evaluate the checkpoint of `rl` on five questions."""
        out = self.folder / "evaluated"
        data = self.workspace / "data" / "val.parquet"
        run = self.folder / "rl" / "run"
        more = (*self.options, *MORE.get(self.family.name, ()))
        if not out.exists():
            asked = ("--data", data, "--out", out, "--model", run, "--limit", "5")
            here = ("--", "+profile=cpu", f"docagent.workspace={self.workspace}", *more)
            logged(
                self.folder / "eval.txt",
                "-m",
                "docagent_rl.cli",
                "eval",
                self.recipe,
                *asked,
                *here,
            )
        played = list(read_trajectories(out / "trajectories.jsonl"))
        masked = sum(each.masked for each in played)
        return f"{len(played) - masked} of {len(played)} questions played"


def logged(log: Path, *command: str | Path) -> None:
    """Run Python with a command, and write its output to the log.

    Raises:
        AssertionError: the command failed.
    """
    with log.open("a") as file:
        file.write(json.dumps([str(part) for part in command]) + "\n")
        file.flush()
        done = subprocess.run(
            [PYTHON, *command], stdout=file, stderr=subprocess.STDOUT, check=False
        )
    assert done.returncode == 0, f"exit status {done.returncode}: {log}"


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2:])
