"""Settings of an engine in this process, from a composed configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf

from docagent_rl.config import DocAgentConfig, plain_section
from docagent_rl.rollout.rollout import Limits

_ENVIRONMENT = "ray_kwargs.ray_init.runtime_env.env_vars"
_FIXED = {
    # a rollout server gets its weights from the trainer, this engine loads them itself
    "load_format": "auto",
    "disable_log_stats": True,
    "enable_sleep_mode": False,
}


@dataclass(frozen=True, slots=True)
class EngineSampling:
    """Settings of vLLM's sampling (`actor_rollout_ref.rollout.val_kwargs`).

    A temperature of 0 selects the most likely token; a `top_k` of -1 considers all tokens.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = -1
    repetition_penalty: float = 1.0


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Settings of an engine: the model's folder or name on the hub, and vLLM's arguments.

    `environment` contains variables to set before the start unless the user has set them; `limits`
    are the token budgets of a trajectory; `seed` determines all sampling.
    """

    model: str
    arguments: Mapping[str, Any]
    environment: Mapping[str, str]
    sampling: EngineSampling
    limits: Limits
    seed: int

    @classmethod
    def of(cls, run: DictConfig, parsed: DocAgentConfig, *, seed: int = 0) -> EngineSettings:
        """Return the settings with which a run starts rollout servers and samples in validation."""
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
        """Set the environment variables of the engine and of verl that the user has not set."""
        for name, value in {**platform, **self.environment}.items():
            os.environ.setdefault(name, value)

    @property
    def described(self) -> dict[str, Any]:
        """The settings that trajectories depend on, ready for JSON."""
        sizes = "max_model_len", "tensor_parallel_size", "pipeline_parallel_size"
        names = ("dtype", *sizes, "quantization")
        return {
            "engine": {name: self.arguments[name] for name in names if name in self.arguments},
            "sampling": asdict(self.sampling),
            "limits": asdict(self.limits),
            "seed": self.seed,
        }
