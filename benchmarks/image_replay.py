"""The images of trajectories that were played, worked on as in a step: as this package does, and as
an opponent.

The opponent keeps float features in each agent worker, hands all pixels of a trajectory to the
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
"""Takes the fields of a trajectory's row; only one row is held at a time."""


CAPACITY = 8 << 30
"""Bytes of images in the cache."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The place where trajectories are played.

    Args:
        processor: of the model.
        render: makes pixels.
        front_ends: vLLM's, one a server.
        workers: agent workers.
        group: trajectories of a question, which follow each other.
        passes: of the trainer.
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
        bill: by part.
        preprocessings: of images, in agent workers and servers.
    """

    bill: Bill = field(default_factory=Bill)
    preprocessings: int = 0


def prompt_of(stage: Stage, images: int) -> list[int]:
    """Token ids with a placeholder an image, as verl hands them to vLLM."""
    token = stage.processor.tokenizer.convert_tokens_to_ids
    start, end = token("<|vision_start|>"), token("<|vision_end|>")
    return [5, *[t for _ in range(images) for t in (start, stage.processor.image_token_id, end)], 7]


def in_turn(trajectories: Sequence[Played]) -> Iterator[tuple[int, list[int], list[Picture]]]:
    """Trajectory, token ids and images of each request, all trajectories side by side."""
    for turn in range(max(len(each.requests) for each in trajectories)):
        for number, each in enumerate(trajectories):
            if turn < len(each.requests):
                yield number, each.prompts[turn], each.requests[turn]


def opponent(
    stage: Stage, trajectories: Sequence[Played], each_row: EachRow, seed: int = 1
) -> Replay:
    """Float features and pixels."""
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
    """Patches of bytes, made once for all workers, and named to servers and in rows; Ray is
    there.
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
            # Ray sends its reference to the patches, a few bytes, in the place of them
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
    """Import, and connect to, what the first image would."""
    size = (4 * layout.side * layout.merge,) * 2
    ref = ImageRef(PageRef("warm", 1), "up", (0, 0, *size), size)
    image = EncodedImage.make(ref, new("RGB", size), stage.processor.image_processor, layout)
    kept = await image_cache.put(image)
    await image_cache.hold("warm up", [kept])
    await kept.handle
    read(name_images([kept], name))


def read(row: Mapping[str, Any]) -> Row:
    """Return what a pass makes of a row."""
    return join_named([row], lambda rows: dict(rows[0]), "cpu") if NAMES in row else dict(row)


def _server(
    stage: Stage, trajectories: Sequence[Played], number: int, routes: dict[str, int]
) -> int:
    """The server of a trajectory, by the name that the balancer goes by."""
    prompts, servers = -(-len(trajectories) // stage.group), len(stage.front_ends)
    uid, own = str(number // stage.group), number % stage.group
    name = route(uid, own, trajectories=stage.group, prompts=prompts, servers=servers)
    return routes.setdefault(name, len(routes) % servers)
