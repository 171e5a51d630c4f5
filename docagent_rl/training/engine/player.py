"""A player whose model runs in this process, and its settings out of a composed configuration."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf, open_dict

from docagent_rl.config import DocAgentConfig, plain_section
from docagent_rl.rollout.chat import template_kwargs
from docagent_rl.rollout.env_resources import environment_identity
from docagent_rl.rollout.images import EncodedImage
from docagent_rl.rollout.recorder import new_trajectory
from docagent_rl.rollout.resources import TrajectoryResources
from docagent_rl.rollout.rollout import Limits, Rollout, Sampled
from docagent_rl.rollout.trajectory import MaskReason, Status, Trajectory
from docagent_rl.samples.sample import Sample
from docagent_rl.training.engine.checkpoint import model_identity, weights_folder

if TYPE_CHECKING:
    from docagent_rl.training.engine.engine import TokenEngine


_ENVIRONMENT = "ray_kwargs.ray_init.runtime_env.env_vars"
_FIXED = {
    # of the rollout's, the trainer alone writes weights
    "load_format": "auto",
    "disable_log_stats": True,
    "enable_sleep_mode": False,
}


@dataclass(frozen=True, slots=True)
class EngineSampling:
    """Settings of vLLM's sampling (`actor_rollout_ref.rollout.val_kwargs`).

    A temperature of 0 takes the likeliest token, a `top_k` of -1 all tokens.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = -1
    repetition_penalty: float = 1.0


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Settings of an engine: a model's folder or name on the hub, and vLLM's arguments.

    `environment` are variables that it starts with, where the user has set none; `limits` are token
    budgets of a trajectory, `seed` is that of all draws.
    """

    model: str
    arguments: Mapping[str, Any]
    environment: Mapping[str, str]
    sampling: EngineSampling
    limits: Limits
    seed: int

    @classmethod
    def of(cls, run: DictConfig, parsed: DocAgentConfig, *, seed: int = 0) -> EngineSettings:
        """Return settings as rollout servers of a run are started, and as its validation
        samples.
        """
        rollout = run.actor_rollout_ref.rollout
        given = plain_section(rollout.engine_kwargs).get("vllm") or {}
        arguments = {
            "dtype": rollout.dtype,
            "max_model_len": rollout.max_model_len,
            "max_num_seqs": rollout.max_num_seqs,
            "max_num_batched_tokens": rollout.max_num_batched_tokens,
            "enable_chunked_prefill": rollout.enable_chunked_prefill,
            "enable_prefix_caching": rollout.enable_prefix_caching,
            "logprobs_mode": rollout.logprobs_mode,
            "enforce_eager": rollout.enforce_eager,
            "gpu_memory_utilization": rollout.gpu_memory_utilization,
            "tensor_parallel_size": rollout.tensor_model_parallel_size,
            "pipeline_parallel_size": rollout.get("pipeline_model_parallel_size", 1),
            "trust_remote_code": bool(run.actor_rollout_ref.model.get("trust_remote_code", False)),
            "seed": seed,
            **_FIXED,
            **{name: value for name, value in given.items() if value is not None},
        }
        drawn = rollout.val_kwargs
        greedy = not bool(drawn.get("do_sample", False))
        return cls(
            model=str(run.actor_rollout_ref.model.path),
            arguments={name: value for name, value in arguments.items() if value is not None},
            environment={
                name: str(value)
                for name, value in (OmegaConf.select(run, _ENVIRONMENT) or {}).items()
            },
            sampling=EngineSampling(
                temperature=0.0 if greedy else float(drawn.temperature),
                top_p=float(drawn.top_p),
                top_k=int(drawn.top_k),
                repetition_penalty=float(rollout.get("repetition_penalty", None) or 1.0),
            ),
            limits=Limits(
                prompt=int(run.data.max_prompt_length),
                response=int(run.data.max_response_length),
                turn=parsed.rollout.turn_tokens,
                min_turn=parsed.rollout.min_turn_tokens,
            ),
            seed=seed,
        )

    def prepare(self, platform: Mapping[str, str]) -> None:
        """Set the environment of the engine's processes, and verl's; what the user has set
        stays.
        """
        for name, value in {**platform, **self.environment}.items():
            os.environ.setdefault(name, value)

    @property
    def described(self) -> dict[str, Any]:
        """Settings that trajectories depend on, JSON-ready."""
        sizes = "max_model_len", "tensor_parallel_size", "pipeline_parallel_size"
        decisive = ("dtype", *sizes, "quantization")
        return {
            "engine": {name: self.arguments[name] for name in decisive if name in self.arguments},
            "sampling": asdict(self.sampling),
            "limits": asdict(self.limits),
            "seed": self.seed,
        }


class EnginePlayer:
    """A player that plays token by token, as a run of the trainer validates.

    Environment, chat template, images, budgets and sampling are those of the run; ids and their
    log- probabilities are recorded.
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
        """Resources that its trajectories share."""
        self._model = dict(model)
        codec = resources.codec
        self._stops = [codec.end_of_turn_id, *sorted(codec.control_ids)]

    @classmethod
    async def open(cls, run: DictConfig, model: str, *, seed: int = 0) -> EnginePlayer:
        """Start an engine for `model` (see `weights_folder`), whose path is set in the
        configuration `run`.

        `seed` is of all draws.

        Raises:
            UserError: the model, the configuration or what it names cannot be used.
        """
        # import vLLM and verl
        from docagent_rl.training.engine.engine import TokenEngine
        from docagent_rl.training.settings.models import load_tokenizer

        folder = weights_folder(model)
        with open_dict(run):
            run.actor_rollout_ref.model.path = folder
        parsed = DocAgentConfig.parse(plain_section(run.docagent))
        settings = EngineSettings.of(run, parsed, seed=seed)
        tokenizer, processor = load_tokenizer(run)
        # the engine first: its processes are started before there are threads
        engine = TokenEngine(settings, tokenizer, processor)
        try:
            await engine.ready()
            resources = TrajectoryResources(
                parsed, tokenizer, processor, template_kwargs(run), running=False
            )
            return cls(settings, engine, resources, model_identity(folder))
        except BaseException:  # Ctrl-C too: the engine's processes would stay
            engine.close()
            raise

    def among(self, run: DictConfig) -> EnginePlayer:
        """Return a player with the same engine and other documents, services or environments.

        `run` has to say the same of the model and its engine.

        Raises:
            UserError: what it names cannot be used.
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
    """Return the seed of a turn's draws: the same whoever plays beside it, and another for every
    turn.
    """
    text = f"{seed}\0{question_id}\0{number}\0{turn}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:6], "big")
