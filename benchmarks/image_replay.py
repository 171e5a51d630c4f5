"""Process the images of trajectories as a step does: as this package, and as an opponent.

The opponent caches float features in each agent worker, hands all pixels of a trajectory to the
server at every turn, lets vLLM's front end preprocess and hash them, and joins float features for
every row.
"""

from __future__ import annotations

import asyncio
import math
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import ray
import torch
from PIL.Image import Image, new

from benchmarks.costs import FEATURES, FRONT_END, JOIN, RENDER, SEND, StepCosts
from benchmarks.full_trajectories import MadeTrajectory
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
from docagent_rl.training.serving.prompts import PromptSender, PromptStore
from docagent_rl.training.serving.requests import NamedImage, route

Row = dict[str, Any]
EachRow = Callable[[int, int, Row], None]
"""Takes the number of a trajectory, the number of its row, and the row's fields.

It is called for one row after the other, so that only one row is in memory.
"""


CAPACITY = 8 << 30
"""Bytes of images that the cache may hold."""


@dataclass(frozen=True, slots=True)
class StepSetup:
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
        costs: processor time and bytes by part.
        preprocessings: how often an image was preprocessed, in agent workers and servers.
    """

    costs: StepCosts = field(default_factory=StepCosts)
    preprocessings: int = 0


def prompt_of(setup: StepSetup, images: int) -> list[int]:
    """Return token ids with one placeholder for each image, as verl hands them to vLLM."""
    id_of_token = setup.processor.tokenizer.convert_tokens_to_ids
    image_ids = [
        id_of_token("<|vision_start|>"),
        setup.processor.image_token_id,
        id_of_token("<|vision_end|>"),
    ]
    text_before, text_after = [5], [7]
    return [*text_before, *image_ids * images, *text_after]


def requests_in_order(
    trajectories: Sequence[MadeTrajectory],
) -> Iterator[tuple[int, int, list[Picture]]]:
    """Yield the trajectory's number, the number of its turn, and the images of each request.

    The first requests of all trajectories come first, then their second requests, and so on.
    """
    for turn in range(max(len(each.requests) for each in trajectories)):
        for number, each in enumerate(trajectories):
            if turn < len(each.requests):
                yield number, turn, each.requests[turn]


def replay_as_opponent(
    setup: StepSetup, trajectories: Sequence[MadeTrajectory], each_row: EachRow, seed: int = 1
) -> Replay:
    """Replay as the opponent does: float features in rows, pixels sent to the servers."""
    replay = Replay()
    generator = torch.Generator().manual_seed(seed)
    shape = (len(trajectories),)
    server_of = torch.randint(len(setup.front_ends), shape, generator=generator).tolist()
    worker_caches: list[dict[str, tuple[Image, Row]]] = [{} for _ in range(setup.workers)]
    server_hashes: list[set[str]] = [set() for _ in setup.front_ends]

    def preprocessed(number: int, ref: Picture) -> tuple[Image, Row]:
        """Return pixels and features of an image, from the cache of the trajectory's worker."""
        cache = worker_caches[number // setup.group % setup.workers]
        if ref.key not in cache:
            with replay.costs.timed(RENDER):
                pixels = setup.render(ref)
                output = setup.processor.image_processor(images=[pixels], return_tensors="pt")
                cache[ref.key] = pixels, dict(output)
            replay.preprocessings += 1
        return cache[ref.key]

    for number, turn, refs in requests_in_order(trajectories):
        images = [preprocessed(number, ref)[0] for ref in refs]
        with replay.costs.timed(SEND) as part:
            sent = pickle.dumps((trajectories[number].prompts[turn], images), protocol=5)
            part.nbytes += len(sent)
            _, received = pickle.loads(sent)
        if not refs:
            continue

        server = server_of[number]
        request = {
            "prompt_token_ids": prompt_of(setup, len(refs)),
            "multi_modal_data": {"image": received},
        }
        with replay.costs.timed(FRONT_END):
            reply = setup.front_ends[server].input_preprocessor.preprocess(request)
        # a server caches images by their hash, so it preprocesses each different one once
        hashes = set(reply["mm_hashes"]["image"])
        replay.preprocessings += len(hashes - server_hashes[server])
        server_hashes[server].update(hashes)

    for number, trajectory in enumerate(trajectories):
        for row_number, refs in enumerate(trajectory.row_images):
            features = [preprocessed(number, ref)[1] for ref in refs]
            with replay.costs.timed(JOIN):
                row = _joined(features)
            each_row(number, row_number, row)
    return replay


def _joined(features: Sequence[Row]) -> Row:
    """Join the features of a row's images; a row without images has none."""
    if not features:
        return {}
    return {name: torch.cat([image[name] for image in features]) for name in features[0]}


def replay_as_package(
    setup: StepSetup, trajectories: Sequence[MadeTrajectory], each_row: EachRow
) -> Replay:
    """Replay as this package does.

    Patches are stored as bytes, made once for all workers, and requests and rows only name them.
    Ray must be running.
    """
    return asyncio.run(_replay_as_package(setup, trajectories, each_row))


async def _replay_as_package(
    setup: StepSetup, trajectories: Sequence[MadeTrajectory], each_row: EachRow
) -> Replay:
    replay = Replay()
    layout = PatchFormat.of(setup.processor.image_processor)
    encoded: dict[str, EncodedImage] = {}
    name = f"docagent_pages_{uuid4().hex}"
    directory = ray.remote(PageDirectory).options(num_cpus=0, name=name).remote(CAPACITY)
    image_cache = RayImageCache(directory)
    await _warm_up(setup, layout, image_cache, name)
    pages = [Pages(each.renderer, torch.bfloat16) for each in setup.front_ends]
    routes: dict[str, int] = {}
    senders = [PromptSender(str(number)) for number in range(len(trajectories))]
    stores = [PromptStore() for _ in setup.front_ends]

    async def preprocessed(ref: Picture) -> EncodedImage:
        """Return the patches of an image, from the cache that all workers share."""
        if ref.key not in encoded:
            with replay.costs.timed(RENDER):
                image = EncodedImage.make(
                    ref, setup.render(ref), setup.processor.image_processor, layout
                )
                encoded[ref.key] = await image_cache.put(image)
            replay.preprocessings += 1
        return encoded[ref.key]

    for number, turn, refs in requests_in_order(trajectories):
        images = [await preprocessed(ref) for ref in refs]
        server = _server(setup, trajectories, number, routes)
        with replay.costs.timed(SEND) as part:
            # in place of the patches, Ray sends a reference of a few bytes
            named = [replace(NamedImage.of(image), handle=b"reference" * 3) for image in images]
            sent = _sent(trajectories[number], turn, senders[number], named)
            part.nbytes += len(sent)
            received = [
                replace(image, handle=encoded[image.key].handle)
                for image in _received(sent, trajectories[number], turn, stores[server])
            ]
        if not refs:
            continue

        with replay.costs.timed(FRONT_END) as part:
            loaded, _ = await pages[server].load(received, every=False)
            part.nbytes += sum(
                encoded[each.image.key].nbytes for each in loaded if each.value is not None
            )
            request = {
                "prompt_token_ids": prompt_of(setup, len(images)),
                "multi_modal_data": {"image": loaded},
            }
            PagePreprocessor(setup.front_ends[server], pages[server]).preprocess(request)

    for number, trajectory in enumerate(trajectories):
        for row_number, refs in enumerate(trajectory.row_images):
            images = [await preprocessed(ref) for ref in refs]
            with replay.costs.timed(JOIN):
                await image_cache.hold(f"{number}_{row_number}", images)
                row = name_images(images, name)
            for _ in range(setup.passes if row else 0):
                with replay.costs.timed(FEATURES):
                    with_features(row)
            each_row(number, row_number, row)
    ray.kill(directory)
    return replay


def _sent(
    made: MadeTrajectory, turn: int, sender: PromptSender, images: Sequence[NamedImage]
) -> bytes:
    """Return the prompt and the images of a turn as they are sent."""
    ids = made.prompts[turn]
    # a trajectory always has the same server
    prompt = sender.shorten(ids, "server")
    sender.record(ids, made.trajectory.turns[turn].token_ids, "server")
    return pickle.dumps((prompt, images), protocol=5)


def _received(
    sent: bytes, made: MadeTrajectory, turn: int, store: PromptStore
) -> Sequence[NamedImage]:
    """Read what was sent, and return the images.

    Raises:
        RuntimeError: the server has other token ids.
    """
    prompt, images = pickle.loads(sent)
    found = store.find(prompt)
    if found is None or found.tolist() != made.prompts[turn]:
        raise RuntimeError(f"turn {turn}: the server has other tokens")
    store.keep(prompt.name, found)
    store.add_reply(prompt.name, found, made.trajectory.turns[turn].token_ids)
    return images


async def _warm_up(
    setup: StepSetup, layout: PatchFormat, image_cache: RayImageCache, name: str
) -> None:
    """Handle one image, so that imports and connections are not part of the measurement."""
    size = (4 * layout.side * layout.merge,) * 2
    ref = ImageRef(PageRef("warm", 1), "up", (0, 0, *size), size)
    image = EncodedImage.make(ref, new("RGB", size), setup.processor.image_processor, layout)
    kept = await image_cache.put(image)
    await image_cache.hold("warm up", [kept])
    await kept.handle
    with_features(name_images([kept], name))


def with_features(row: Mapping[str, Any]) -> Row:
    """Return the fields of a row as a pass of the trainer reads them, with features."""
    if NAMES not in row:
        return dict(row)
    return join_named([row], lambda rows: dict(rows[0]), "cpu")


def _server(
    setup: StepSetup, trajectories: Sequence[MadeTrajectory], number: int, routes: dict[str, int]
) -> int:
    """Return the number of a trajectory's server, by the name that verl's load balancer uses."""
    servers = len(setup.front_ends)
    prompts = math.ceil(len(trajectories) / setup.group)
    group_number, number_in_group = divmod(number, setup.group)
    name = route(
        str(group_number),
        number_in_group,
        trajectories=setup.group,
        prompts=prompts,
        servers=servers,
    )
    return routes.setdefault(name, len(routes) % servers)
