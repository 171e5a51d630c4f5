"""A player whose model runs in this process."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, open_dict

from docagent_rl.config import DocAgentConfig, plain_section
from docagent_rl.rollout.chat import template_kwargs
from docagent_rl.rollout.env_resources import environment_identity
from docagent_rl.rollout.images import EncodedImage
from docagent_rl.rollout.recorder import new_trajectory
from docagent_rl.rollout.resources import TrajectoryResources
from docagent_rl.rollout.rollout import Rollout, Sampled
from docagent_rl.rollout.trajectory import MaskReason, Status, Trajectory
from docagent_rl.samples.sample import Sample
from docagent_rl.training.engine.checkpoint import model_identity, weights_folder
from docagent_rl.training.engine.settings import EngineSampling, EngineSettings

if TYPE_CHECKING:
    from docagent_rl.training.engine.engine import TokenEngine


class EnginePlayer:
    """A player that plays token by token, as a training run does in validation.

    Environment, chat template, images, budgets and sampling are those of the run; token ids and
    their log-probabilities are recorded.
    """

    def __init__(
        self,
        settings: EngineSettings,
        engine: TokenEngine,
        resources: TrajectoryResources,
        model: Mapping[str, str],
    ) -> None:
        self._settings = settings
        self._engine = engine
        self.resources = resources
        """The resources that its trajectories share."""
        self._model = dict(model)
        codec = resources.codec
        self._stops = [codec.end_of_turn_id, *sorted(codec.control_ids)]

    @classmethod
    async def open(cls, run: DictConfig, model: str, *, seed: int = 0) -> EnginePlayer:
        """Start an engine for `model` (see `weights_folder`), and set its path in `run`.

        `seed` determines all sampling.

        Raises:
            UserError: the model, the configuration or something that it names cannot be used.
        """
        # imported here because they import vLLM and verl
        from docagent_rl.training.engine.engine import TokenEngine
        from docagent_rl.training.settings.models import load_tokenizer

        folder = weights_folder(model)
        with open_dict(run):
            run.actor_rollout_ref.model.path = folder
        parsed = DocAgentConfig.parse(plain_section(run.docagent))
        settings = EngineSettings.of(run, parsed, seed=seed)
        tokenizer, processor = load_tokenizer(run)
        # start the engine first, as its processes should be started before there are threads
        engine = TokenEngine(settings, tokenizer, processor)
        try:
            await engine.ready()
            resources = TrajectoryResources(
                parsed, tokenizer, processor, template_kwargs(run), running=False
            )
            return cls(settings, engine, resources, model_identity(folder))
        except BaseException:  # also on Ctrl-C, or the engine's processes would survive
            engine.close()
            raise

    def among(self, run: DictConfig) -> EnginePlayer:
        """Return a player with the same engine, but other documents, services or environments.

        `run` must have the same settings for the model and the engine.

        Raises:
            UserError: something that `run` names cannot be used.
        """
        mine = self.resources
        parsed = DocAgentConfig.parse(plain_section(run.docagent))
        template = template_kwargs(run)
        resources = TrajectoryResources(
            parsed, mine.tokenizer, mine.processor, template, running=False
        )
        return EnginePlayer(self._settings, self._engine, resources, self._model)

    @property
    def identity(self) -> Mapping[str, Any]:
        """See `Player.identity`."""
        return {
            "player": "engine",
            "model": self._model["path"],
            "weights": self._model.get("sha256"),
            **self._settings.described,
            "template": dict(self.resources.template),
            "environment": environment_identity(self.resources, validate=True),
        }

    async def play(self, sample: Sample, number: int) -> Trajectory:
        """See `Player.play`. A trajectory in which nothing was sampled is masked
        (`MaskReason.EMPTY`).
        """
        resources = self.resources
        trajectory = new_trajectory(sample, number, resources.system.name)
        seeds = (
            draw_seed(self._settings.seed, trajectory.uid, number, n) for n in itertools.count()
        )

        async def generate(ids: list[int], images: list[EncodedImage], most: int) -> Sampled:
            return await self._engine.generate(
                ids, images, most=most, stops=self._stops, seed=next(seeds)
            )

        async def ask(ids: list[int], changes: dict[str, Any]) -> Sampled:
            sampling = EngineSampling(changes["temperature"], changes["top_p"], changes["top_k"])
            most = changes["max_tokens"]
            seed = next(seeds)
            return await self._engine.generate(
                ids, (), most=most, stops=self._stops, seed=seed, sampling=sampling
            )

        context = self._settings.arguments.get("max_model_len")
        rollout = Rollout(
            env=resources.open(validate=True, ask=ask, context=context),
            codec=resources.codec,
            encoder=resources.encoder,
            generate=generate,
            limits=self._settings.limits,
            trajectory=trajectory,
        )
        ledgers = await rollout.play(sample)
        if not any(ledger.sampled for ledger in ledgers):
            trajectory.status = Status.MASKED.value
            trajectory.end = MaskReason.EMPTY.value
            trajectory.error = "the model sampled no token of its own"
        return trajectory

    async def close(self) -> None:
        """See `Player.close`."""
        self._engine.close()


def draw_seed(seed: int, question_id: str, number: int, turn: int) -> int:
    """Return the seed of a turn, which differs between turns and does not depend on other
    players.
    """
    text = f"{seed}\0{question_id}\0{number}\0{turn}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:6], "big")
