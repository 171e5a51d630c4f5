"""A small model that reads pages, and its task: a smaller version of that of `learning.task`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen2_5_VLForConditionalGeneration

from anchoring.results import ReaderSettings
from docagent_rl.base.io import atomic_dir
from docagent_rl.config import DocAgentConfig
from docagent_rl.lab.tiny.model import build_model
from docagent_rl.lab.tiny.shapes import build_processor, tiny_config
from docagent_rl.lab.tiny.tokenizer import Example, build_tokenizer
from docagent_rl.lab.tiny.warm_up import batch_loss
from docagent_rl.rollout.images import EncodedImage, join_features
from docagent_rl.rollout.ledger import LedgerRow, TurnLedger
from docagent_rl.rollout.resources import TrajectoryResources
from docagent_rl.rollout.rollout import Limits
from docagent_rl.samples.parquet import read_parquet
from docagent_rl.samples.sample import Sample
from learning.oracle import EXTRA_WORD, oracle
from learning.task import SYSTEM, Part, TaskPaths, TaskSettings, make_task, task_section
from trial import play_scripted

LIMITS = Limits(prompt=128, response=160, turn=24, min_turn=8)


@dataclass(frozen=True, slots=True)
class ReaderTask:
    """The task with everything that trajectories need.

    Args:
        paths: the places of its parts.
        processor: the model's processor.
        resources: store, index, prompt, chat codec and image encoder.
    """

    paths: TaskPaths
    processor: Any
    resources: TrajectoryResources

    @classmethod
    def make(cls, root: Path, settings: TaskSettings) -> ReaderTask:
        """Draw, ingest and index the pages in a folder; an existing task there is reused.

        Raises:
            UserError: the folder holds another task.
        """
        paths = make_task(root, settings)
        samples = read_parquet(paths.data(Part.SFT))
        # the task's words become single tokens, so that rows are short
        texts = [sample.question for sample in samples]
        texts += [f"<search>{sample.extra[EXTRA_WORD]}</search><answer>" for sample in samples]
        texts += [paths.prompt.read_text(encoding="utf-8"), "</answer>"] * 4
        processor = build_processor(build_tokenizer(texts))
        config = DocAgentConfig.parse(task_section(paths))
        return cls(paths, processor, TrajectoryResources(config, processor.tokenizer, processor))

    def samples(self, part: Part) -> list[Sample]:
        """Read the questions of a part."""
        return read_parquet(self.paths.data(part))


def features(row: LedgerRow) -> dict[str, torch.Tensor]:
    """Join the features of a row's images.

    Returns:
        `pixel_values` (p, channels) and `image_grid_thw` (i, 3); empty for a row without images.
    """
    return join_features([image for image in row.images if isinstance(image, EncodedImage)])


def oracle_ledgers(task: ReaderTask, samples: Sequence[Sample]) -> list[TurnLedger]:
    """Make the oracle's trajectories, token by token as in a rollout, and return their ledgers."""
    resources = task.resources

    async def play() -> list[TurnLedger]:
        ledgers: list[TurnLedger] = []
        for sample in samples:
            played = await play_scripted(
                sample,
                oracle,
                env=resources.environment(validate=False),
                system=SYSTEM,
                codec=resources.codec,
                encoder=resources.encoder,
                limits=LIMITS,
            )
            ledgers += played.ledgers
        return ledgers

    return asyncio.run(play())


def train_reader(
    task: ReaderTask,
    settings: ReaderSettings,
    *,
    on_step: Callable[[float], None] = lambda loss: None,
) -> Qwen2_5_VLForConditionalGeneration:
    """Fit a model of a million parameters to the oracle's trajectories, from random weights.

    Args:
        task: the task, which has the oracle's questions.
        settings: the settings of the training.
        on_step: called with the loss of every step, in nats per token.
    """
    image = task.processor.image_token_id
    examples = [
        _example(ledger.row(), image) for ledger in oracle_ledgers(task, task.samples(Part.SFT))
    ]
    model = build_model(tiny_config(task.processor.tokenizer), settings.seed)
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0.01)
    rng = random.Random(f"anchoring/{settings.seed}")
    for step in range(settings.steps):
        for group in optimizer.param_groups:
            group["lr"] = settings.rate(step)
        loss = batch_loss(model, rng.sample(examples, settings.batch_size))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        on_step(loss.item())
    return model


def load_reader(
    task: ReaderTask,
    settings: ReaderSettings,
    folder: Path,
    *,
    on_step: Callable[[float], None] = lambda loss: None,
) -> Qwen2_5_VLForConditionalGeneration:
    """Load the model of a folder; train it first if the folder does not exist."""
    if not folder.is_dir():
        model = train_reader(task, settings, on_step=on_step)
        with atomic_dir(folder) as made:
            model.save_pretrained(made)
    # a new model is loaded from its file, too, so that all calls return the same
    return Qwen2_5_VLForConditionalGeneration.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="sdpa"
    ).eval()


def _example(row: LedgerRow, image_token_id: int) -> Example:
    ids = torch.tensor([*row.prompt_ids, *row.response_ids])
    return Example(
        input_ids=ids,
        is_image=(ids == image_token_id).long(),
        supervised=torch.tensor([0] * len(row.prompt_ids) + row.response_mask).bool(),
        vision=features(row),
    )
