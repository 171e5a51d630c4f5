"""Checks of questions and documents against the system that is to play them, before Ray starts."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from typing import Any

from omegaconf import DictConfig
from pydantic import BaseModel

from docagent_rl.base.errors import UserError
from docagent_rl.config import DocAgentConfig
from docagent_rl.documents import DocumentStore
from docagent_rl.documents.display import DisplayError, DisplayRule
from docagent_rl.envs.search_scope import SearchScope
from docagent_rl.envs.system import System
from docagent_rl.records.record import Record
from docagent_rl.rollout.playability import listed
from docagent_rl.systems import get_system
from docagent_rl.training.settings.run_questions import KEYS, Questions, run_questions

logger = logging.getLogger(__name__)


def check_questions(config: DictConfig, parsed: DocAgentConfig) -> None:
    """See that the questions fill a batch, and that the pages of their documents can be shown.

    Whether each can be played is for `rollout.opening_check` to say.

    Args:
        config: the composed configuration, its data files validated.
        parsed: its section `docagent`.

    Raises:
        UserError: the first kind of problem found, with its numbers or pages.
    """
    system = get_system(parsed.system)
    warn_of_marks(system)
    both = [run_questions(config, key) for key in KEYS]
    check_batches(config, both[0])
    env = system.parse_config(parsed.env)
    check_pages(parsed.open_store(), env, (record for each in both for record in each.records))


def warn_of_marks(system: System) -> None:
    """Say of a system that does not name its outcome what will be missing."""
    if system.marks.outcome is None:
        logger.warning(
            "%s does not name the metric that says how right an answer is: the evidence funnel will show no "
            "accuracy, and filters of `collect` by outcome keep nothing. Set marks=Marks(outcome=...) in its "
            "System",
            system.name,
        )


def check_batches(config: DictConfig, train: Questions) -> None:
    """Refuse batches that the questions cannot fill.

    verl drops an incomplete last batch of training, so a file that is smaller than one has no step at all;
    an epoch has `questions // data.train_batch_size` steps. Validation keeps incomplete batches.

    Raises:
        UserError: a batch is larger than the number of questions; the message has both.
    """
    sizes = {"data.train_batch_size": config.data.train_batch_size}
    if str(config.trainer.v1.trainer_mode) == "sync" and config.data.get("gen_batch_size"):
        sizes["data.gen_batch_size"] = config.data.gen_batch_size
    for key, size in sizes.items():
        if size > train.used:
            limited = train.used < train.rows
            of = (
                f"(data.train_max_samples={train.used} of {train.rows} questions in data.train_files)"
                if limited
                else "in data.train_files"
            )
            raise UserError(
                f"{key}={size} is above the {train.used} questions {of}: verl drops an incomplete batch, so "
                f"there would be no step. Set {key} to {train.used} or less (and "
                "actor_rollout_ref.actor.ppo_mini_batch_size with it), or add questions"
            )


def check_pages(store: DocumentStore, env: BaseModel, records: Iterable[Record]) -> None:
    """Refuse documents with a page that no image processor takes: a session that meets it would be lost.

    Args:
        store: the documents.
        env: configuration of the environment; without a field `display` it shows no pages.
        records: whose documents are looked at; all of the store when the search goes over all.

    Raises:
        UserError: there are such pages; the message names them.
    """
    display = getattr(env, "display", None)
    if display is None:
        return
    verdicts: dict[tuple[int, int], str | None] = {}
    problems = []
    for doc_id in _documents(store, env, records):
        document = store.document(doc_id)
        for number in range(1, document.num_pages + 1):
            page = document.page(number)
            if page.size not in verdicts:
                verdicts[page.size] = _refused(display, page.size)
            if verdicts[page.size]:
                problems.append(f"page {page.ref}: {verdicts[page.size]}")
    if problems:
        raise UserError(
            f"{len(problems)} pages of {store.path} cannot be shown; leave their documents out:\n  "
            + listed(problems)
        )


def _documents(store: DocumentStore, env: BaseModel, records: Iterable[Record]) -> list[str]:
    if getattr(getattr(env, "search", None), "scope", None) is SearchScope.CORPUS:
        return store.doc_ids()
    return sorted({record.doc_id for record in records} & set(store.doc_ids()))


def _refused(display: Any, size: tuple[int, int]) -> str | None:
    try:
        display.shown(size)
    except DisplayError as error:
        return str(error)
    return None


def image_tokens_of(parsed: DocAgentConfig, env: BaseModel, most_images: int, nominal: int) -> int:
    """Visual tokens of an episode at most, by the pages of the store instead of the largest image.

    Args:
        parsed: the section `docagent`.
        env: configuration of the environment.
        most_images: images of an episode at most.
        nominal: the bound by the configuration alone; it stays when there is no store yet, and for an
            environment that shows images by a rule of its own.
    """
    display = getattr(env, "display", None)
    try:
        store = DocumentStore(parsed.store)
    except UserError:
        return nominal  # missing: the demo may make it, or the next check says so
    if not isinstance(display, DisplayRule):
        return nominal
    sizes = {store.page(ref).size for ref in store.pages()}
    most = max((page_tokens(display, size) for size in sizes), default=nominal)
    return min(nominal, most_images * most)


def page_tokens(display: DisplayRule, size: tuple[int, int]) -> int:
    """An upper bound on the visual tokens of a page of `size` pixels and of any part of it.

    A page below `max_pixels` is shown as it is, each side rounded to the grid, or enlarged to `min_pixels`;
    ordinary side ratios as in `DisplayRule.max_tokens`.
    """
    factor = display.factor
    ratio = max(2.0, max(size) / min(size))
    spread, least = math.sqrt(ratio) + 1 / math.sqrt(ratio), display.min_pixels / factor**2
    rounded = (size[0] / factor + 0.5) * (size[1] / factor + 0.5)
    enlarged = least + math.sqrt(least) * spread + 1
    return min(display.max_tokens(ratio), math.floor(max(rounded, enlarged)))
