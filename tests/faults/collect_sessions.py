"""Sessions of a policy and of an oracle, recorded as a run and as supervised training record them."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from transformers import AutoProcessor, Qwen2_5_VLForConditionalGeneration

from docagent_rl.cli import reported
from docagent_rl.records.parquet import read_parquet
from docagent_rl.sft.rows import write_sft
from docagent_rl.tiny.qwen2_5_vl import build_tiny_qwen2_5_vl
from docagent_rl.tiny.trial import play_trial
from docagent_rl.training.trainer.archive import write_metrics, write_trajectories
from learning.plan import LearnPaths
from learning.task import Part, TaskSettings, make_task
from learning.warm_start import oracle_rows, play_setting

SMALL = TaskSettings(sft=1, train=1, dev=1, held_out=1, pages=2)


def collect(root: Path) -> None:
    paths = LearnPaths(root.resolve())
    make_task(paths.task.workspace, SMALL)
    model = build_tiny_qwen2_5_vl(paths.root / "model", seed=0)
    processor = AutoProcessor.from_pretrained(model)
    setting = play_setting(paths)
    rows = oracle_rows(setting, processor, read_parquet(paths.task.data(Part.SFT)))
    write_sft(rows, paths.root / "rows.parquet", processor.tokenizer)
    weights = Qwen2_5_VLForConditionalGeneration.from_pretrained(model, dtype=torch.float32)
    records = read_parquet(paths.task.data(Part.TRAIN))
    for step in (1, 2):
        played = play_trial(setting, weights, processor, records[:1], sessions=2, seed=step)
        write_trajectories(paths.root / "run", step, played)
        write_metrics(paths.root / "run", step, {"turns": len(played[0].turns)})


if __name__ == "__main__":
    torch.set_num_threads(1)
    with reported():
        collect(Path(sys.argv[1]))
