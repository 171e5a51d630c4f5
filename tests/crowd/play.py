"""Play a crowd: a recipe, its questions, many trajectories in one event loop, and the outcome of
each.
"""

import asyncio
import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from hydra._internal import config_loader_impl as loader
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import ConfigRepository
from omegaconf import DictConfig, OmegaConf
from verl.experimental.agent_loop.agent_loop import DictConfigWrap

from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.lab.agents.random_turns import QuestionStatistics
from docagent_rl.rollout.images import join_features
from docagent_rl.rollout.trajectory import Trajectory, whole_line
from docagent_rl.systems import get_system
from docagent_rl.training.agent_loop.output import IMAGES
from docagent_rl.training.settings.models import load_tokenizer
from tests.composing import by_choices, file_key, kept, list_key
from tests.crowd.pulse import Pulse
from tests.crowd.server import ScriptedServer, WatchedLoop


@dataclass(frozen=True)
class Ended:
    """A trajectory that has ended: its record without times, and a digest of its training rows."""

    sample: dict[str, Any]
    rows: str
    trajectory: Trajectory


class Crowd:
    """A recipe and a world, ready to play; `seed` is that of the scripts."""

    def __init__(
        self, world: Any, recipe: str, overrides: Sequence[str] = (), *, seed: int = 0
    ) -> None:
        self.config = configuration(world, recipe, overrides)
        self.samples = world.samples
        self.tokenizer, self.processor = load_tokenizer(self.config)
        section = OmegaConf.to_container(self.config.docagent, resolve=True)
        system = get_system(section["system"])
        env = system.parse_config(section["env"])
        pages = {r.doc_id: world.store.document(r.doc_id).num_pages for r in self.samples}
        self.server = ScriptedServer(
            self.tokenizer,
            system.script(env),
            system.max_turns(env),
            pages,
            QuestionStatistics.of(self.samples),
            seed,
        )

    async def trajectory(self, number: int) -> list[Any]:
        """Return the rows of one trajectory, as verl gets them."""
        sample = self.samples[number % len(self.samples)]
        loop = WatchedLoop(DictConfigWrap(self.config), self.server, self.tokenizer, self.processor)
        uid, of_group = str(number % len(self.samples)), number // len(self.samples)
        rows = await loop.run(
            {"temperature": 1.0},
            sample=sample.to_json(),
            uid=uid,
            session_id=of_group,
            global_steps=1,
        )
        self.server.playing.pop(f"{uid}-{of_group}", None)
        return rows

    async def ended(self, number: int) -> Ended:
        """Return the outcome of one trajectory."""
        rows = await self.trajectory(number)
        trajectory = Trajectory.from_json(whole_line(b"".join(row.line for row in rows)))
        return Ended(comparable(trajectory), digest(rows), trajectory)

    def together(self, numbers: Sequence[int], pulse: Pulse | None = None) -> list[Ended]:
        """Play trajectories at the same time, in one event loop of their own."""

        async def play() -> list[Ended]:
            async with pulse or Pulse():
                return list(await asyncio.gather(*map(self.ended, numbers)))

        return asyncio.run(play())

    def alone(self, number: int) -> Ended:
        """Play one trajectory alone in an event loop."""
        return asyncio.run(self.ended(number))


def keep_packages() -> None:
    """Compose as fast as the tests do (`tests/composing.py`), in another process."""
    merge = "_compose_config_from_defaults_list"
    ConfigRepository.load_config = kept(ConfigRepository.load_config, file_key)
    setattr(ConfigLoaderImpl, merge, kept(getattr(ConfigLoaderImpl, merge), list_key))
    loader.create_defaults_list = by_choices(loader.create_defaults_list)


def configuration(world: Any, recipe: str, overrides: Sequence[str]) -> DictConfig:
    """Return the configuration of the recipe in the CPU profile, for the given world."""
    fixed = [
        "+profile=cpu",
        f"docagent.workspace={world.root}",
        "docagent.provision=null",
        f"actor_rollout_ref.model.path={world.root / 'model'}",
    ]
    ablations = [each for each in overrides if each.startswith("+ablations=")]
    config = composed_recipe(
        recipe, [*ablations, *fixed, *(each for each in overrides if each not in ablations)]
    )
    OmegaConf.update(config, "hydra", {})
    return config


def comparable(trajectory: Trajectory) -> dict[str, Any]:
    """Return a record without seconds, and without the number of images that no other trajectory
    had made before.
    """
    sample = dataclasses.asdict(trajectory)
    del sample["image_preprocessings"]
    for turn in sample["turns"]:
        del turn["seconds"]
        for search in turn["searches"]:
            del search["seconds"]
        turn["info"].pop("seconds", None)
    return sample


def digest(rows: Sequence[Any]) -> str:
    """Return a digest of ids, masks, rewards, turns, log-probs and image features of all rows."""
    found = hashlib.sha256()
    for row in rows:
        fields = (
            row.prompt_ids,
            row.response_ids,
            row.response_mask,
            row.turn_index,
            row.token_rewards,
        )
        found.update(json.dumps([*fields, row.response_logprobs]).encode())
        for name, value in sorted(join_features(row.multi_modal_data[IMAGES].images).items()):
            found.update(name.encode() + torch.as_tensor(value).contiguous().numpy().tobytes())
    return found.hexdigest()
