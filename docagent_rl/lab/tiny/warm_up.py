"""A few seconds of supervised training, after which a tiny model writes turns that an environment
can execute.
"""

import math
import random
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
import torch.nn.functional as F
from rich.progress import track
from torch.nn.utils.rnn import pad_sequence

from docagent_rl.base.errors import UserError
from docagent_rl.lab.tiny.tokenizer import Conversation, Example, encode

WEIGHT_DECAY = 0.01
CLIP_NORM = 1.0
LEARNING_RATE = 6e-3
"""Peak learning rate of AdamW: linear warm-up over a tenth of the steps, then cosine decay."""
FINAL_FACTOR = 0.05
SHARPNESS = 1.1
"""Factor on all logits after training, so that temperature 1 has the effect that 1/1.1 had."""
SHORT_CONTEXT = 48
"""Tokens before the first turn that are kept in short steps."""
THREADS = 1
"""Number of CPU threads during training: sums, and thus the weights, depend on it. With operations
this small, a second thread gains little on an idle machine and costs time on a busy one.
"""
TOWERS = ("visual", "vision_tower")
"""Attribute names of the vision tower in a model."""
MIN_SHARED = 64
"""Shortest common prefix, in tokens, that is worth a separate forward pass."""


@dataclass(frozen=True)
class WarmUp:
    """Settings of the warm-up. With the defaults and prompts of 300 words it takes about 20 s on
    one idle core.
    """

    transcripts: Callable[[int], Iterable[Conversation]]
    """Called with `seed`; yields at least one conversation (an endless iterable is cut off after
    `pool`).
    """

    short_steps: int = 220
    """Steps on conversations without images, cut to the last `SHORT_CONTEXT` tokens before the
    first turn. They teach the form of a turn at a fraction of the cost.
    """

    full_steps: int = 60
    """Steps on whole conversations, half of them at the end and half spread over the steps before,
    so that long instructions and images do not disturb what was learnt.
    """

    batch_size: int = 3
    pool: int = 256
    """Number of conversations drawn; each epoch goes through all of them in batches."""

    seed: int = 0

    @property
    def steps(self) -> int:
        """Number of optimizer steps."""
        return self.short_steps + self.full_steps

    def draw(self) -> list[Conversation]:
        """Return the pool of conversations.

        Raises:
            UserError: `transcripts` yields none.
        """
        pool = list(islice(self.transcripts(self.seed), self.pool))
        if not pool:
            raise UserError(
                "WarmUp.transcripts yields no conversation; provide at least one question"
            )
        return pool


def warm_up(
    model: Any,
    processor: Any,
    conversations: Sequence[Conversation],
    settings: WarmUp,
    *,
    show_progress: bool = False,
) -> list[float]:
    """Train the language part in place on assistant tokens; the vision tower keeps its random
    weights.

    Return the loss of every step, in nats per supervised token. The result depends only on the
    arguments and the machine's kernels: batches are drawn with `settings.seed`, no layer uses
    random numbers, and the number of threads is fixed.
    """
    with _threads(THREADS):
        examples = [encode(conversation, processor) for conversation in conversations]
        model.requires_grad_(True)
        for name in TOWERS:
            if hasattr(model.model, name):
                getattr(model.model, name).requires_grad_(False)
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimizer = torch.optim.AdamW(
            parameters, lr=LEARNING_RATE, betas=(0.9, 0.98), weight_decay=WEIGHT_DECAY
        )
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: _rate(step, settings.steps)
        )
        losses = []
        batches = _batches(examples, settings)
        for batch in track(
            batches, "warm-up", settings.steps, transient=True, disable=not show_progress
        ):
            loss = batch_loss(model, batch)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, CLIP_NORM)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        model.requires_grad_(True)
        sharpen(model, SHARPNESS)
    return losses


@torch.no_grad()
def sharpen(model: Any, factor: float) -> None:
    """Multiply all logits by `factor`, through the weight of the last norm.

    A model this small gives some probability to every wrong token, and a turn has twenty tokens.
    """
    norm = getattr(model.model, "language_model", model.model).norm
    weight = norm.weight.clone()
    norm.weight.zero_()
    # some families scale by `1 + weight` instead of `weight`
    one_more = bool(norm(torch.ones_like(weight)).any())
    norm.weight.copy_(weight * factor + (factor - 1) * one_more)


def batch_loss(model: Any, batch: Sequence[Example]) -> torch.Tensor:
    """Return the mean negative log-likelihood of the supervised tokens of a batch, a scalar in
    nats.

    The prefix that all examples share (instructions of hundreds of tokens) goes through the model
    once, with gradients; the remainders follow as a batch that uses its keys and values. They are
    padded on the right, which needs no mask: with causal attention a real token never sees the
    padding after it.
    """
    # the state of linear attention cannot be shared between examples
    shares = "linear_attention" not in (
        getattr(model.config.get_text_config(), "layer_types", None) or ()
    )
    start = shared_prefix(batch) if shares else 0
    ids, supervised, is_image = (
        pad_sequence([getattr(example, name) for example in batch], batch_first=True)
        for name in ("input_ids", "supervised", "is_image")
    )
    seen = [example.vision for example in batch if example.vision]
    vision = {name: torch.cat([each[name] for each in seen]) for name in (seen[0] if seen else ())}
    # (3, b, t): time, height and width of every token; (b, t) for a text-only model
    grid = vision.get("image_grid_thw")
    if hasattr(model.model, "get_rope_index"):
        positions, _ = model.model.get_rope_index(ids, is_image, grid)
    else:
        positions = torch.arange(ids.shape[1]).expand_as(ids)
    cache = None
    if start:
        first = positions[..., :1, :start]
        prefix = model.model(input_ids=ids[:1, :start], position_ids=first, use_cache=True)
        cache = prefix.past_key_values
        cache.batch_repeat_interleave(len(batch))
    hidden = model.model(
        input_ids=ids[:, start:],
        position_ids=positions[..., start:],
        past_key_values=cache,
        use_cache=cache is not None,
        **vision,
    ).last_hidden_state
    targets = supervised[:, start + 1 :]
    return F.cross_entropy(model.lm_head(hidden[:, :-1][targets]), ids[:, start + 1 :][targets])


def shared_prefix(batch: Sequence[Example]) -> int:
    """Return how many leading tokens all examples share, up to the first image or the token before
    the first turn.

    A short prefix counts as 0, since a separate pass would cost more than it saves.
    """
    limit = min(
        int((example.supervised | example.is_image.bool()).nonzero()[0]) - 1 for example in batch
    )
    if limit < MIN_SHARED:
        return 0
    openings = torch.stack([example.input_ids[:limit] for example in batch])
    differs = (openings != openings[0]).any(0).nonzero()
    return int(differs[0]) if len(differs) else limit


def _batches(examples: Sequence[Example], settings: WarmUp) -> Iterator[list[Example]]:
    """Yield one batch per step; each epoch is a new permutation."""
    rng = random.Random(settings.seed)
    queue: list[Example] = []
    for step in range(settings.steps):
        while len(queue) < settings.batch_size:
            queue.extend(rng.sample(examples, len(examples)))
        batch = queue[: settings.batch_size]
        queue = queue[settings.batch_size :]
        whole = _is_full(step, settings)
        yield batch if whole else [example.shortened(SHORT_CONTEXT) for example in batch]


def _is_full(step: int, settings: WarmUp) -> bool:
    """Return whether a step uses whole conversations: half of those steps are the last ones, the
    other half is spread over the steps before.
    """
    tail = settings.full_steps // 2
    spread = settings.full_steps - tail
    before = settings.steps - tail
    if step >= before:
        return True
    return (step + 1) * spread // before > step * spread // before


def _rate(step: int, steps: int) -> float:
    """Return the factor on the learning rate at a step: linear warm-up, then cosine decay."""
    rise = max(1, steps // 10)
    if step < rise:
        return (step + 1) / rise
    progress = (step - rise) / max(1, steps - rise)
    return FINAL_FACTOR + (1 - FINAL_FACTOR) * 0.5 * (1 + math.cos(math.pi * progress))


@contextmanager
def _threads(count: int) -> Generator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
