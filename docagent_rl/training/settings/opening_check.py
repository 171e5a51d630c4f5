"""Reads the questions of a run, and refuses a run with questions that cannot be played."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from omegaconf import DictConfig, OmegaConf
from verl.utils import hf_processor, hf_tokenizer
from verl.utils.fs import copy_to_local

from docagent_rl.base.errors import UserError
from docagent_rl.base.terminal import visible
from docagent_rl.config import DocAgentConfig, Unplayable, data_files
from docagent_rl.rollout.chat import template_kwargs
from docagent_rl.rollout.playability import listed, open_all
from docagent_rl.rollout.resources import TrajectoryResources
from docagent_rl.samples.parquet import AGENT_NAME, read_table
from docagent_rl.samples.sample import Sample

KEYS = ("train_files", "val_files")
_MANY = 1000
"""Questions that take a while."""


@dataclass(frozen=True, slots=True)
class Questions:
    """The questions of `data.train_files` or `data.val_files` that verl takes and our loop plays.

    `rows` counts the questions in the files, `used` those that verl takes (`data.train_max_samples`,
    `data.val_max_samples`); `samples` are those that may be played, without those of other agent loops.
    """

    key: str
    rows: int
    samples: tuple[Sample, ...]
    used: int


def run_questions(config: DictConfig, key: str) -> Questions:
    """Read the questions of `train_files` or `val_files`, which exist and are valid."""
    rows: list[tuple[str, str]] = []
    for file in data_files(config, key):
        columns = read_table(file, columns=["agent_name", "sample"]).to_pydict()
        rows += zip(columns["agent_name"], columns["sample"], strict=True)
    most = OmegaConf.select(config, f"data.{key.removesuffix('_files')}_max_samples") or -1
    used = min(most, len(rows)) if most > 0 else len(rows)
    # verl draws them at random when it shuffles
    drawn = rows if OmegaConf.select(config, "data.shuffle") else rows[:used]
    samples = tuple(Sample.from_json(text) for agent, text in drawn if agent == AGENT_NAME)
    return Questions(key, len(rows), samples, used)


def check_openings(config: DictConfig, parsed: DocAgentConfig) -> None:
    """Make the prompt of every question and report on standard error which cannot be played.

    The data files exist and are valid.

    Raises:
        UserError: training questions cannot be played and `docagent.rollout.unplayable` is `refuse`, no
            question of a file can be played, or `docagent.rollout.prompt_tokens` promises more than
            `data.max_prompt_length`.
    """
    limit = int(config.data.max_prompt_length)
    promised = parsed.rollout.prompt_tokens
    if promised is not None and promised > limit:
        raise UserError(
            f"docagent.rollout.prompt_tokens={promised} is above data.max_prompt_length={limit}: "
            "environments would fill prompts that the rollout refuses"
        )
    resources = TrajectoryResources(parsed, *load_tokenizer(config), template_kwargs(config), running=False)
    for key in KEYS:
        _check_file(run_questions(config, key), resources, limit)


def _check_file(questions: Questions, resources: TrajectoryResources, limit: int) -> None:
    name, count = f"data.{questions.key}", len(questions.samples)
    validate = questions.key == "val_files"
    if count > _MANY:
        print(f"docagent-rl: {name}: making {count} prompts", file=sys.stderr)
    found = open_all(questions.samples, resources, limit=limit, validate=validate)
    if found.adapted:
        print(f"docagent-rl: {name}: documents whose prompt was made to fit {limit} tokens:", file=sys.stderr)
        for how, documents in sorted(found.adapted.items()):
            print(visible(f"  {how}: {len(documents)}, e.g. {min(documents)}"), file=sys.stderr)
    if not found.unplayable:
        return
    number = len(found.unplayable)
    head = f"{name}: {number} of {found.questions} questions cannot be played by {resources.system.name}"
    lines = []  # one a document: what cannot be played is mostly a matter of the document
    ordered = sorted(found.unplayable, key=lambda each: each.doc_id)
    for doc_id, group in groupby(ordered, key=lambda each: each.doc_id):
        first, *others = group
        more = f" and {len(others)} more" if others else ""
        lines.append(f"document {doc_id!r}, question {first.question_id!r}{more}: {first.reason}")
    message = f"{head}\n  {listed(lines)}"
    if number == count:
        raise UserError(message)
    if validate:
        outcome = "they count as wrong and are reported beside the score"
    elif resources.config.rollout.unplayable is Unplayable.MASK:
        outcome = "their trajectories are masked and counted"
    else:
        raise UserError(
            f"{message}\n  drop these questions, or set docagent.rollout.unplayable=mask to train on the "
            "others"
        )
    print(visible(f"docagent-rl: {message}\n  {outcome}"), file=sys.stderr)


def load_tokenizer(config: DictConfig) -> tuple[Any, Any | None]:
    """Load tokenizer and processor of the model as verl loads them for the rollout.

    Raises:
        UserError: the model has no tokenizer that can be loaded.
    """
    model = config.actor_rollout_ref.model
    source = str(model.get("tokenizer_path") or model.path)
    trusted = bool(model.get("trust_remote_code", False))
    try:
        path = copy_to_local(source, use_shm=bool(model.get("use_shm", False)))
        tokenizer = hf_tokenizer(path, trust_remote_code=trusted)
        processor = hf_processor(path, trust_remote_code=trusted)
    except (OSError, ValueError, ImportError) as error:
        raise UserError(
            f"actor_rollout_ref.model.path={source}: no tokenizer can be loaded: {error}"
        ) from error
    template = model.get("custom_chat_template")
    for part in (tokenizer, processor):
        if part is not None and template is not None:
            part.chat_template = template
    if processor is not None and not getattr(processor, "chat_template", None):
        processor.chat_template = tokenizer.chat_template
    return tokenizer, processor
