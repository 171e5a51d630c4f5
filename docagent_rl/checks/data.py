"""Checks of questions and documents against the system that is to play them."""

from __future__ import annotations

from collections.abc import Iterator

from omegaconf import OmegaConf

from docagent_rl.checks.check import PlannedRun
from docagent_rl.config import data_files
from docagent_rl.rollout.playability import listed
from docagent_rl.samples.parquet import AGENT_NAME, read_table, validate_parquet
from docagent_rl.training.settings.opening_check import KEYS, run_questions

AGENT_LOOPS = "actor_rollout_ref.rollout.agent.agent_loop_config_path"


def check_files(run: PlannedRun) -> Iterator[str]:
    """Open store and indexes, and see that the data files are there, valid and about its documents."""
    from docagent_rl.rollout.env_resources import open_retrievers, open_shown_store

    store = run.section.open_store()
    open_shown_store(run.section, store)
    open_retrievers(run.section, store, running=False)
    for key in KEYS:
        for file in data_files(run.config, key):
            if not file.is_file():
                yield f"data.{key}: {file} does not exist; `docagent-rl data convert` writes such files"
                continue
            report = validate_parquet(file, store=store)
            if not report.ok:
                yield listed(report.problems)
                continue
            unknown = set(read_table(file, columns=["agent_name"])["agent_name"].to_pylist()) - {AGENT_NAME}
            if unknown and OmegaConf.select(run.config, AGENT_LOOPS) is None:
                yield (
                    f"{file}: agent_name {min(unknown)!r} is not {AGENT_NAME}; loops of your own are listed "
                    f"in {AGENT_LOOPS}"
                )


def check_questions(run: PlannedRun) -> Iterator[str]:
    """Find batches above the questions: verl drops an incomplete last batch of training."""
    config, train = run.config, run_questions(run.config, "train_files")
    sizes = {"data.train_batch_size": config.data.train_batch_size}
    if str(config.trainer.v1.trainer_mode) == "sync" and config.data.get("gen_batch_size"):
        sizes["data.gen_batch_size"] = config.data.gen_batch_size
    limited = f"(data.train_max_samples={train.used} of {train.rows} questions in data.train_files)"
    source = limited if train.used < train.rows else "in data.train_files"
    for key, size in sizes.items():
        if size > train.used:
            yield (
                f"{key}={size} is above the {train.used} questions {source}: verl drops an incomplete batch, "
                f"so there would be no step. Set {key} to {train.used} or less (and "
                "actor_rollout_ref.actor.ppo_mini_batch_size with it), or add questions"
            )
