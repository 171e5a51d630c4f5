"""Refuses a run whose training questions cannot be played, and says what validation will count as wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from omegaconf import DictConfig
from verl.utils import hf_processor, hf_tokenizer
from verl.utils.fs import copy_to_local

from docagent_rl import config as settings
from docagent_rl.base.errors import UserError
from docagent_rl.base.terminal import visible
from docagent_rl.config import DocAgentConfig
from docagent_rl.rollout.chat import template_kwargs
from docagent_rl.rollout.openings import Openings, Unplayable, open_all
from docagent_rl.rollout.resources import SessionResources
from docagent_rl.training.settings.run_questions import KEYS, Questions, run_questions

_NAMED = 10
"""Documents that a message names at most."""
_MANY = 1000
"""Questions that take a while."""


def check_openings(config: DictConfig, parsed: DocAgentConfig, out: TextIO | None = None) -> None:
    """Make the prompt of every question and report those that cannot be played.

    Args:
        config: the composed configuration; its data files exist and are valid.
        parsed: its section `docagent`.
        out: where the report goes; by default the standard error stream.

    Raises:
        UserError: training questions cannot be played and `docagent.rollout.unplayable` is `refuse`, no
            question of a file can be played, or
            `docagent.rollout.prompt_tokens` promises more than `data.max_prompt_length`.
    """
    limit = int(config.data.max_prompt_length)
    promised = parsed.rollout.prompt_tokens
    if promised is not None and promised > limit:
        raise UserError(
            f"docagent.rollout.prompt_tokens={promised} is above data.max_prompt_length={limit}: "
            "environments would fill prompts that the rollout refuses"
        )
    resources = SessionResources(parsed, *load_tokenizer(config), template_kwargs(config), running=False)
    for key in KEYS:
        _check_file(run_questions(config, key), resources, limit, out or sys.stderr)


def _check_file(questions: Questions, resources: SessionResources, limit: int, out: TextIO) -> None:
    name, count = f"data.{questions.key}", len(questions.records)
    if count > _MANY:
        print(f"docagent-rl: {name}: making {count} prompts", file=out)
    found = open_all(questions.records, resources, limit=limit, validate=questions.validate)
    print(visible("".join(_report(name, found, limit))), end="", file=out)
    if not found.unplayable:
        return
    told = f"{name}: {_listed(found, resources.system.name)}"
    if len(found.unplayable) == count:
        raise UserError(told)
    if questions.validate:
        what = "they count as wrong and are reported beside the score"
    elif resources.config.rollout.unplayable is settings.Unplayable.MASK:
        what = "their sessions are masked and counted"
    else:
        raise UserError(
            f"{told}\n  drop these questions, or set docagent.rollout.unplayable=mask to train on the others"
        )
    print(visible(f"docagent-rl: {told}\n  {what}"), file=out)


def load_tokenizer(config: DictConfig) -> tuple[Any, Any | None]:
    """Tokenizer and processor of the model, as verl loads them for the rollout.

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


def _report(name: str, found: Openings, limit: int) -> Iterator[str]:
    if found.adapted:
        yield f"docagent-rl: data.{name}: documents whose prompt was made to fit {limit} tokens:\n"
        for how, documents in sorted(found.adapted.items()):
            yield f"  {how}: {len(documents)}, e.g. {min(documents)}\n"


def _listed(found: Openings, system: str) -> str:
    """Documents first: what cannot be played is mostly a matter of the document."""
    documents: dict[str, list[Unplayable]] = {}
    for question in found.unplayable:
        documents.setdefault(question.doc_id, []).append(question)
    head = f"{len(found.unplayable)} of {found.questions} questions cannot be played by {system}"
    lines = [_line(doc_id, questions) for doc_id, questions in sorted(documents.items())]
    more = len(lines) - _NAMED
    return "\n  ".join([head, *lines[:_NAMED], *([f"and {more} more documents"] if more > 0 else [])])


def _line(doc_id: str, questions: Sequence[Unplayable]) -> str:
    first = questions[0]
    others = f" and {len(questions) - 1} more" if len(questions) > 1 else ""
    return f"document {doc_id!r}, question {first.question_id!r}{others}: {first.reason}"
