"""What trajectories depend on beside who plays them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docagent_rl.endpoints.endpoint import Endpoint
from docagent_rl.retrieval.config import RetrieverConfig
from docagent_rl.rollout.env_resources import EnvResources

if TYPE_CHECKING:
    from docagent_rl.rollout.resources import TrajectoryResources

_PATIENCE = {
    "base_url", "api_key_env", "timeout_s", "attempts", "backoff_s", "deadline_s", "check_s", "concurrency",
    "cache_dir",
}  # fmt: skip
_SEARCH = {"kind", "model", "candidates", "fusion", "rrf_k", "weights", "depth", "options"}


def environment_identity(resources: EnvResources | TrajectoryResources, *, validate: bool) -> dict[str, Any]:
    """System, its configuration and prompt, and the services; JSON-ready.

    Places and patience (paths, addresses, timeouts) are left out: a run may go on elsewhere.
    """
    config = resources.config
    return {
        "system": resources.system.name,
        "validate": validate,
        "env": resources.env_config.model_dump(mode="json"),
        "prompt": resources.prompt.digest,
        "prompt_tokens": config.rollout.prompt_tokens,
        "judge": _decisive(config.judge),
        "roles": {name.value: _decisive(each) for name, each in sorted(config.roles.items())},
        "retrievers": {key: _search(each) for key, each in config.retrievers().items()},
    }


def _decisive(section: Endpoint) -> dict[str, Any]:
    return section.model_dump(mode="json", exclude=_PATIENCE)


def _search(config: RetrieverConfig) -> dict[str, Any]:
    found = config.model_dump(mode="json", include=_SEARCH)
    return {**found, "parts": {name: _search(part) for name, part in sorted(config.parts.items())}}
