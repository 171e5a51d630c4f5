"""What an agent worker has for its trajectories: memory, threads, a cache of images."""

from __future__ import annotations

from dataclasses import dataclass, field

import psutil
from omegaconf import DictConfig

from docagent_rl.rollout.images import CAPACITY, EncodedImage, ImageCache, ImageEncoder, ImageSettings, cores
from docagent_rl.training.agent_loop.admission import Admission
from docagent_rl.training.agent_loop.gauges import Gauges
from docagent_rl.training.agent_loop.output import IMAGES, DocAgentLoopOutput

FREE_SHARE = 0.5
"""Of a node's free memory, for the trajectories of all its agent workers."""
STORE_SHARE = 1 / 3
"""Of Ray's object store, for images; what workers hold of them besides is at most as much again."""
TOKEN_BYTES = 400
"""Of a token in the lists of a ledger and a row: ids, masks, log-probs, turns, rewards, as Python objects."""


@dataclass(slots=True)
class Place:
    """One agent worker.

    Attributes:
        images: how it makes and keeps them; `None`: as a process on its own.
        admission: of trajectories; `None`: all at once.
        gauges: of the worker's load.
        encoder: of its trajectories, once the first has begun.
    """

    images: ImageSettings | None = None
    admission: Admission | None = None
    gauges: Gauges = field(default_factory=Gauges)
    encoder: ImageEncoder | None = None

    def look(self) -> None:
        """Note queues and bytes as they are now."""
        if self.admission is not None:
            self.gauges.note("trajectories_playing", self.admission.playing)
            self.gauges.note("trajectories_waiting", self.admission.waiting)
        if self.encoder is not None:
            self.gauges.note("images_waiting", self.encoder.waiting)
            self.gauges.note("images_bytes", self.encoder.held_bytes)


def place_of(
    run: DictConfig, *, workers: int, on_node: int, capacity: int, image_cache: ImageCache | None
) -> Place:
    """What an agent worker has.

    Args:
        run: the composed configuration.
        workers: of the run.
        on_node: those of this node.
        capacity: bytes of images that the run keeps.
        image_cache: of the run.
    """
    rollout = run.docagent.rollout
    memory = rollout.get("trajectory_memory_mb")
    budget = memory << 20 if memory else int(FREE_SHARE * psutil.virtual_memory().available / on_node)
    threads = rollout.get("image_threads") or max(2, cores() // on_node)
    return Place(ImageSettings(capacity // workers, threads, image_cache), Admission(budget))


def image_bytes(run: DictConfig, store: float) -> int:
    """Bytes of images that a run keeps.

    Args:
        run: the composed configuration.
        store: bytes of Ray's object store, of all nodes.
    """
    given = run.docagent.rollout.get("image_cache_mb")
    return given << 20 if given else max(CAPACITY, int(STORE_SHARE * store))


def trajectory_bytes(rows: list[DocAgentLoopOutput]) -> int:
    """What a trajectory took when it ended: its images, in the ledger and in its rows, and its tokens."""
    total = 0
    for row in rows:
        total += TOKEN_BYTES * (len(row.prompt_ids) + len(row.response_ids))
        images: tuple[EncodedImage, ...] = (row.multi_modal_data or {})[IMAGES].images
        total += 2 * sum(image.nbytes for image in images)
    return total
