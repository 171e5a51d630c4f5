"""From miniatures of all benchmarks to a report on an agent that was fine-tuned and trained with
LoRA.
"""

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from docagent_rl.lab.importers import Benchmark
from docagent_rl.samples.questions import read_questions
from docagent_rl.samples.sample import Sample, write_jsonl
from tests.e2e.conftest import FAMILY, RECIPE, Run, add_model
from tests.e2e.custom import SHORT
from tests.e2e.lora import LORA
from tests.e2e.lora import STEPS as RL_STEPS
from tests.e2e.miniatures import MINIATURES
from tests.lab.importers.conftest import Files

SFT_RECIPE = "sft_vrag_rl_qwen2_5_vl_7b"
BATCH, STEPS = 8, 8
SFT = (
    "+profile=cpu",
    f"docagent.model_family={FAMILY}",
    f"data.train_batch_size={BATCH}",
    f"data.train_max_samples={BATCH}",  # one batch, again and again
    f"data.val_max_samples={BATCH}",
    f"trainer.total_training_steps={STEPS}",
    f"trainer.save_freq={STEPS}",
    f"trainer.test_freq={STEPS}",
    "optim.lr=2e-3",
    "optim.lr_scheduler_type=constant",
)
RL = (
    *SHORT,
    *LORA,
    f"trainer.total_training_steps={RL_STEPS}",
    f"trainer.save_freq={RL_STEPS}",
    "data.train_batch_size=4",  # one update a step, the first one from the reference
    # what was fine-tuned for seconds answers nothing right
    "actor_rollout_ref.actor.entropy_coeff=0.01",
    "docagent.rollout.unplayable=mask",  # UDA names no evidence, which the reward needs
)
AGENTS = ("oracle", "random")


@dataclass(frozen=True)
class Chain:
    """The files that the commands wrote.

    Args:
        questions: the file of all benchmarks.
        kept: trajectories of the oracle that are learned from.
        model: what was fine-tuned.
        rows: folder of the rows it learned from.
        sft_run: the run of the supervised stage.
        run: the run of RL.
        exported: the model that its checkpoint became.
        trained: the evaluation of its checkpoint; those of the oracle and of chance beside it.
        report: folder of the report on the three.
    """

    questions: Path
    kept: Path
    model: Path
    rows: Path
    sft_run: Path
    run: Run
    exported: Path
    trained: Path
    report: Path

    @property
    def fine_tuned(self) -> Path:
        """Return the model after the supervised stage."""
        return self.sft_run / "checkpoints" / f"global_step_{STEPS}" / "huggingface"


def play(folder: Path, demo: Path, python: Path) -> Chain:
    """Import, collect, fine-tune, train, evaluate and report."""
    add_model(demo, "vrag_rl", python, FAMILY)
    world = folder / "world"
    store, model = world / "store", demo / "models" / f"tiny_vrag_rl_{FAMILY}"
    questions = imported(folder, world, python)
    data, kept, rows = world / "data", folder / "collected", world / "sft" / "vrag_rl"
    here = ("--", "+profile=cpu", f"docagent.workspace={world}")
    rows_made = ("--model", model, "--store", store, "--out", rows / "train.parquet")
    _docagent(
        python,
        ("data", "convert", questions, "--store", store, "--out", data / "train.parquet"),
        ("data", "convert", questions, "--store", store, "--out", data / "val.parquet"),
        ("index", "build", "--store", store, "--out", world / "index"),
        ("collect", RECIPE, "--data", questions, "--out", kept, "--player", "oracle", *here),
        ("data", "sft", kept / "kept.jsonl", *rows_made),
    )
    (rows / "val.parquet").write_bytes((rows / "train.parquet").read_bytes())
    sft_run = world / "sft_run"
    trainer = ("verl.trainer.sft_trainer", "--config-name", SFT_RECIPE, *SFT)
    where = (f"model.path={model}", f"docagent.workspace={world}", f"docagent.run_dir={sft_run}")
    _python(python, "-m", *trainer, *where)
    run = Run(folder, world, (), python)
    made = Chain(
        questions=questions,
        kept=kept / "kept.jsonl",
        model=model,
        rows=rows,
        sft_run=sft_run,
        run=run,
        exported=folder / "exported",
        trained=folder / "trained",
        report=folder / "report",
    )
    run.overrides = (*RL, f"actor_rollout_ref.model.path={made.fine_tuned}")
    run.finish()
    agents = {folder / agent: ("--agent", agent) for agent in AGENTS}
    agents[made.trained] = ("--model", run.run_dir)
    _docagent(
        python,
        ("export", run.run_dir, "--out", made.exported),
        *(
            ("eval", RECIPE, "--data", questions, "--out", out, *who, *here)
            for out, who in agents.items()
        ),
        ("report", *agents, "--out", made.report, "--draws", "200"),
    )
    return made


def imported(folder: Path, world: Path, python: Path) -> Path:
    """Import all benchmarks: their questions into one file, their documents into one store."""
    commands, files = [], {}
    for benchmark in Benchmark:
        download = folder / "downloads" / benchmark
        MINIATURES[benchmark](Files(download))
        files[benchmark] = out = folder / "questions" / f"{benchmark}.jsonl"
        where = ("--store", world / "store", "--out", out, "--any-count")
        commands.append(("data", "import", benchmark, download, *where))
    _docagent(python, *commands)
    samples: list[Sample] = []
    for benchmark, file in files.items():
        for sample in read_questions(file):
            if sample.answers:  # ids are those of the benchmark, and two may have the same
                samples.append(replace(sample, question_id=f"{benchmark}-{sample.question_id}"))
    return write_jsonl(samples, folder / "questions.jsonl")


COMMANDS = """
import json, sys
from docagent_rl.cli import main

for arguments in json.loads(sys.argv[1]):
    sys.argv = ["docagent-rl", *arguments]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
"""


def _docagent(python: Path, *commands: Sequence[str | Path]) -> None:
    """Run commands one after the other in one process, since each would spend seconds on its
    imports.
    """
    _python(python, "-c", COMMANDS, json.dumps([list(map(str, command)) for command in commands]))


def _python(*command: str | Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}"
