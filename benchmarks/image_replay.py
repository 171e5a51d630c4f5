"""Process the images of recorded trajectories as in a step, once our way and once an opponent's.

The opponent caches float features in each agent worker, hands all pixels of a trajectory to the
server at every turn, lets vLLM's front end preprocess and hash them, and joins float features for
every row.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import ray
import torch
from PIL.Image import Image, new

from benchmarks.bill import FEATURES, FRONT_END, HAND, JOIN, RENDER, Bill
from benchmarks.full_trajectories import Played
from docagent_rl.documents import PageRef
from docagent_rl.envs.images import ImageRef, Picture
from docagent_rl.rollout.images import EncodedImage
from docagent_rl.rollout.patches import PatchFormat
from docagent_rl.training.serving.image_cache import (
    NAMES,
    PageDirectory,
    RayImageCache,
    join_named,
    name_images,
)
from docagent_rl.training.serving.pages import PagePreprocessor, Pages
from docagent_rl.training.serving.requests import NamedImage, route

Row = dict[str, Any]
EachRow = Callable[[int, int, Row], None]
"""Takes the number of a trajectory, the number of its row, and the row's fields.

It is called for one row after the other, so that only one row is in memory.
"""


CAPACITY = 8 << 30
"""Bytes of images that the cache may hold."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The workers and servers that a step has.

    Args:
        processor: the model's processor.
        render: draws the pixels of an image.
        front_ends: vLLM's front end of each rollout server.
        workers: the number of agent workers.
        group: the number of trajectories of a question, which follow each other.
        passes: the number of passes of the trainer.
    """

    processor: Any
    render: Callable[[Picture], Image]
    front_ends: Sequence[Any]
    workers: int
    group: int
    passes: int


@dataclass(slots=True)
class Replay:
    """The result of a replay.

    Args:
        bill: processor time and bytes by part.
        preprocessings: how often an image was preprocessed, in agent workers and servers.
    """

    bill: Bill = field(default_factory=Bill)
    preprocessings: int = 0


def prompt_of(stage: Stage, images: int) -> list[int]:
    """Return token ids with one placeholder for each image, as verl hands them to vLLM."""
    token = stage.processor.tokenizer.convert_tokens_to_ids
    start, end = token("<|vision_start|>"), token("<|vision_end|>")
    return [5, *[t for _ in range(images) for t in (start, stage.processor.image_token_id, end)], 7]


def in_turn(trajectories: Sequence[Played]) -> Iterator[tuple[int, list[int], list[Picture]]]:
    """Yield the trajectory's number, token ids and images of each request.

    The first requests of all trajectories come first, then their second requests, and so on.
    """
    for turn in range(max(len(each.requests) for each in trajectories)):
        for number, each in enumerate(trajectories):
            if turn < len(each.requests):
                yield number, each.prompts[turn], each.requests[turn]


def opponent(
    stage: Stage, trajectories: Sequence[Played], each_row: EachRow, seed: int = 1
) -> Replay:
    """Replay as the opponent does: float features in rows, pixels sent to the servers."""
    replay = Replay()
    drawn = torch.Generator().manual_seed(seed)
    servers = torch.randint(len(stage.front_ends), (len(trajectories),), generator=drawn).tolist()
    kept: list[dict[str, tuple[Image, Row]]] = [{} for _ in range(stage.workers)]
    seen: list[set[str]] = [set() for _ in stage.front_ends]

    def made(number: int, ref: Picture) -> tuple[Image, Row]:
        worker = kept[number // stage.group % stage.workers]
        if ref.key not in worker:
            with replay.bill.timed(RENDER):
                pixels = stage.render(ref)
                found = dict(stage.processor.image_processor(images=[pixels], return_tensors="pt"))
                worker[ref.key] = pixels, found
            replay.preprocessings += 1
        return worker[ref.key]

    for number, ids, refs in in_turn(trajectories):
        shown = [made(number, ref)[0] for ref in refs]
        with replay.bill.timed(HAND) as part:
            sent = pickle.dumps((ids, shown), protocol=5)
            part.nbytes += len(sent)
            _, received = pickle.loads(sent)
        if not refs:
            continue
        request = {
            "prompt_token_ids": prompt_of(stage, len(refs)),
            "multi_modal_data": {"image": received},
        }
        with replay.bill.timed(FRONT_END):
            answer = stage.front_ends[servers[number]].input_preprocessor.preprocess(request)
        hashes = set(answer["mm_hashes"]["image"])
        replay.preprocessings += len(hashes - seen[servers[number]])
        seen[servers[number]].update(hashes)
    for number, each in enumerate(trajectories):
        for place, refs in enumerate(each.rows):
            own = [made(number, ref)[1] for ref in refs]
            with replay.bill.timed(JOIN):
                row = (
                    {name: torch.cat([one[name] for one in own]) for name in own[0]} if own else {}
                )
            each_row(number, place, row)
    return replay


def ours(stage: Stage, trajectories: Sequence[Played], each_row: EachRow) -> Replay:
    """Replay as this package does.

    Patches are stored as bytes, made once for all workers, and requests and rows only name them.
    Ray must be running.
    """
    return asyncio.run(_ours(stage, trajectories, each_row))


async def _ours(stage: Stage, trajectories: Sequence[Played], each_row: EachRow) -> Replay:
    replay = Replay()
    layout = PatchFormat.of(stage.processor.image_processor)
    kept: dict[str, EncodedImage] = {}
    name = f"docagent_pages_{uuid4().hex}"
    directory = ray.remote(PageDirectory).options(num_cpus=0, name=name).remote(CAPACITY)
    image_cache = RayImageCache(directory)
    await _warm_up(stage, layout, image_cache, name)
    pages = [Pages(each.renderer, torch.bfloat16) for each in stage.front_ends]
    routes: dict[str, int] = {}

    async def made(ref: Picture) -> EncodedImage:
        if ref.key not in kept:
            with replay.bill.timed(RENDER):
                image = EncodedImage.make(
                    ref, stage.render(ref), stage.processor.image_processor, layout
                )
                kept[ref.key] = await image_cache.put(image)
            replay.preprocessings += 1
        return kept[ref.key]

    for number, ids, refs in in_turn(trajectories):
        shown = [await made(ref) for ref in refs]
        with replay.bill.timed(HAND) as part:
            # in place of the patches, Ray sends a reference of a few bytes
            named = [replace(NamedImage.of(image), handle=b"reference" * 3) for image in shown]
            sent = pickle.dumps((ids, named), protocol=5)
            part.nbytes += len(sent)
            received = [
                replace(image, handle=kept[image.key].handle) for image in pickle.loads(sent)[1]
            ]
        if not refs:
            continue
        server = _server(stage, trajectories, number, routes)
        with replay.bill.timed(FRONT_END) as part:
            loaded, _ = await pages[server].load(received, every=False)
            part.nbytes += sum(kept[i.image.key].nbytes for i in loaded if i.value is not None)
            request = {
                "prompt_token_ids": prompt_of(stage, len(shown)),
                "multi_modal_data": {"image": loaded},
            }
            PagePreprocessor(stage.front_ends[server], pages[server]).preprocess(request)
    for number, each in enumerate(trajectories):
        for place, refs in enumerate(each.rows):
            own = [await made(ref) for ref in refs]
            with replay.bill.timed(JOIN):
                await image_cache.hold(f"{number}_{place}", own)
                row = name_images(own, name)
            for _ in range(stage.passes if row else 0):
                with replay.bill.timed(FEATURES):
                    read(row)
            each_row(number, place, row)
    ray.kill(directory)
    return replay


async def _warm_up(
    stage: Stage, layout: PatchFormat, image_cache: RayImageCache, name: str
) -> None:
    """Handle one image, so that imports and connections are not part of the measurement."""
    size = (4 * layout.side * layout.merge,) * 2
    ref = ImageRef(PageRef("warm", 1), "up", (0, 0, *size), size)
    image = EncodedImage.make(ref, new("RGB", size), stage.processor.image_processor, layout)
    kept = await image_cache.put(image)
    await image_cache.hold("warm up", [kept])
    await kept.handle
    read(name_images([kept], name))


def read(row: Mapping[str, Any]) -> Row:
    """Return the fields of a row as a pass of the trainer reads them, with features."""
    return join_named([row], lambda rows: dict(rows[0]), "cpu") if NAMES in row else dict(row)


def _server(
    stage: Stage, trajectories: Sequence[Played], number: int, routes: dict[str, int]
) -> int:
    """Return the number of a trajectory's server, by the name that verl's load balancer uses."""
    prompts, servers = -(-len(trajectories) // stage.group), len(stage.front_ends)
    uid, own = str(number // stage.group), number % stage.group
    name = route(uid, own, trajectories=stage.group, prompts=prompts, servers=servers)
    return routes.setdefault(name, len(routes) % servers)
