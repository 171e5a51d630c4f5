"""From miniatures of ten benchmarks to a report on an agent that was fine-tuned and trained."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from docagent_rl.records.importers import Benchmark
from docagent_rl.records.record import Record, read_jsonl, write_jsonl
from tests.e2e.conftest import RECIPE, Run, add_model
from tests.records.importers.conftest import Files
from tests.records.importers.test_chain import MAKERS

SFT = (
    *("+profile=cpu", "data.train_batch_size=4", "trainer.total_training_steps=2", "trainer.save_freq=2"),
    *("trainer.test_freq=-1", "data.val_files=null"),
)
RL = (
    *("trainer.total_training_steps=1", "trainer.save_freq=1", "trainer.test_freq=-1"),
    *("trainer.val_before_train=false", "data.train_batch_size=4"),
    "docagent.rollout.unplayable=mask",  # UDA names no evidence, which the reward needs
)
AGENTS = ("oracle", "random")


@dataclass(frozen=True)
class Chain:
    """What the commands left.

    Args:
        questions: the file of all ten benchmarks.
        kept: sessions of the oracle that are learned from.
        fine_tuned: the model after the supervised stage.
        run: the run of RL.
        trained: the evaluation of its checkpoint; those of the oracle and of chance beside it.
        report: folder of the report on the three.
    """

    questions: Path
    kept: Path
    fine_tuned: Path
    run: Run
    trained: Path
    report: Path


def play(folder: Path, demo: Path, python: Path) -> Chain:
    """Import, collect, fine-tune, train, evaluate, report."""
    add_model(demo, "vrag_rl")
    world = folder / "world"
    store, questions, model = world / "store", imported(folder, world), demo / "models" / "tiny_vrag_rl"
    data, kept, rows = world / "data", folder / "collected", world / "sft" / "vrag_rl"
    here = ("--", "+profile=cpu", f"docagent.workspace={world}")
    _docagent("data", "convert", questions, "--store", store, "--out", data / "train.parquet")
    (data / "val.parquet").write_bytes((data / "train.parquet").read_bytes())
    _docagent("index", "build", "--store", store, "--out", world / "index")
    _docagent("collect", RECIPE, "--data", questions, "--out", kept, "--player", "oracle", *here)
    rows_made = ("--model", model, "--store", store, "--out", rows / "train.parquet")
    _docagent("data", "sft", kept / "kept.jsonl", *rows_made)
    _module(
        *("verl.trainer.sft_trainer", "--config-name", f"sft_{RECIPE}", *SFT, f"model.path={model}"),
        *(f"docagent.workspace={world}", f"docagent.run_dir={world / 'sft_run'}"),
    )
    fine_tuned = world / "sft_run" / "checkpoints" / "global_step_2" / "huggingface"
    run = Run(folder, world, (*RL, f"actor_rollout_ref.model.path={fine_tuned}"), python)
    run.finish()
    evals = {agent: folder / agent for agent in (*AGENTS, "trained")}
    for agent, out in evals.items():
        who = ("--model", run.run_dir) if agent == "trained" else ("--agent", agent)
        _docagent("eval", RECIPE, "--data", questions, "--out", out, *who, *here)
    _docagent("report", *evals.values(), "--out", folder / "report", "--draws", "200")
    return Chain(questions, kept / "kept.jsonl", fine_tuned, run, evals["trained"], folder / "report")


def imported(folder: Path, world: Path) -> Path:
    """The questions of all ten in one file, their documents in one store."""
    records: list[Record] = []
    for benchmark in Benchmark:
        download = folder / "downloads" / benchmark
        MAKERS[benchmark](Files(download))
        out = folder / "questions" / f"{benchmark}.jsonl"
        _docagent(
            "data", "import", benchmark, download, "--store", world / "store", "--out", out, "--any-count"
        )
        for record in read_jsonl(out):
            if record.answers:  # ids are those of the benchmark, and two may have the same
                records.append(replace(record, question_id=f"{benchmark}-{record.question_id}"))
    return write_jsonl(records, folder / "questions.jsonl")


def _docagent(*arguments: str | Path) -> str:
    return _module("docagent_rl.cli", *arguments)


def _module(*arguments: str | Path) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", *map(str, arguments)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-4000:]}"
    return done.stdout
