"""verl's vLLM server for trajectories: images that agent loops have preprocessed, and admission."""

import argparse
from functools import cached_property, partial
from typing import Any, cast

import ray
import torch
from verl.workers.rollout.replica import TokenOutput
from verl.workers.rollout.vllm_rollout import vllm_async_server as upstream
from vllm.config import VllmConfig

from docagent_rl.training.serving.kv_admission import KVAdmission, Ticket
from docagent_rl.training.serving.pages import EvictedError, PagePreprocessor, Pages
from docagent_rl.training.serving.prompts import UNKNOWN_PREFIX, PromptStore, SentPrompt
from docagent_rl.training.serving.requests import LOADS, SERVED, Served, all_named

REQUESTS_AT_ONCE = 1 << 16
"""Concurrent requests to a server, those that wait included: more than a step has trajectories.

Ray lets no further request in, so that those that wait would hold up those that play or leave.
"""


class vLLMHttpServer(upstream.vLLMHttpServer):  # noqa: N801  the name by which verl's is known and watched
    """A server that accepts images by name (`NamedImage`), and fetches those its engine lacks.

    Trajectories are admitted by the room that its KV cache has (`KVAdmission`).
    """

    _admission: KVAdmission | None = None

    async def run_server(self, args: argparse.Namespace) -> None:
        """Start verl's server, and make its engine's front end accept preprocessed images."""
        await super().run_server(args)
        self._pages = Pages(
            self.engine.renderer, cast("torch.dtype", self.engine.model_config.dtype)
        )
        self.engine.input_processor.input_preprocessor = PagePreprocessor(self.engine, self._pages)
        self._admission = admission_of(self.engine.vllm_config)

    async def generate(  # ty: ignore[incompatible-method-override]
        self,
        prompt_ids: list[int] | SentPrompt,
        sampling_params: dict[str, Any],
        request_id: str,
        image_data: list[Any] | None = None,
        ticket: Ticket | None = None,
        **others: Any,
    ) -> TokenOutput:
        """Generate as verl does, once the KV cache has room for the trajectory of `ticket`.

        The trajectory keeps its room until `leave` is called. Other arguments are passed on.
        """
        request = {"image_data": image_data, "ticket": ticket, **others}
        if not isinstance(prompt_ids, SentPrompt):
            return await self._admit(prompt_ids, sampling_params, request_id, **request)
        ids = self._prompts.find(prompt_ids)
        if ids is None:
            return TokenOutput(token_ids=[], extra_fields={UNKNOWN_PREFIX: True})
        self._prompts.keep(prompt_ids.name, ids)
        output = await self._admit(ids.tolist(), sampling_params, request_id, **request)
        self._prompts.add_reply(prompt_ids.name, ids, output.token_ids)
        return output

    async def _admit(
        self,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        request_id: str,
        image_data: list[Any] | None,
        ticket: Ticket | None,
        **others: Any,
    ) -> TokenOutput:
        ask = partial(self._generate, prompt_ids, sampling_params, request_id, image_data, **others)
        admission = self._admission
        if ticket is None or admission is None or self._rejecting:
            return await ask()
        await admission.enter(ticket, len(prompt_ids))
        admission.record(ticket, len(prompt_ids))
        output = await ask()
        admission.record(ticket, len(prompt_ids) + len(output.token_ids))
        output.extra_fields[SERVED] = Served(admission.playing, admission.waiting)
        return output

    @cached_property
    def _prompts(self) -> PromptStore:
        return PromptStore()

    async def leave(self, trajectory: str) -> None:
        """Give the room of a trajectory that has ended, or moved to another server, to others."""
        self._prompts.drop(trajectory)
        if self._admission is not None:
            self._admission.leave(trajectory)

    async def abort_all_requests(
        self, reset_prefix_cache: bool = True, reject_request: bool = False
    ) -> dict[str, Any]:
        """Abort as verl does; trajectories that wait are rejected, too, if others are."""
        if reject_request and self._admission is not None:
            self._admission.dismiss()
        return await super().abort_all_requests(reset_prefix_cache, reject_request)

    async def _generate(
        self,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        request_id: str,
        image_data: list[Any] | None = None,
        **others: Any,
    ) -> TokenOutput:
        """Generate as verl does; if the engine has evicted an image in the meantime, send it
        again.
        """
        ask = partial(super().generate, prompt_ids, **others)
        if not all_named(image_data):
            return await ask(sampling_params, request_id, image_data=image_data)
        loaded, loads = await self._pages.load(image_data, every=False)
        try:
            # a copy, as verl removes values from the parameters
            output = await ask(dict(sampling_params), request_id, image_data=loaded)
        except EvictedError:
            # the request waited for a weight update, which clears the caches, or others filled them
            loaded, again = await self._pages.load(image_data, every=True)
            loads += again
            output = await ask(dict(sampling_params), request_id, image_data=loaded)
        output.extra_fields[LOADS] = loads
        return output


class PageReplica(upstream.vLLMReplica):
    """verl's replica with the server of this module."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.server_class = ray.remote(vLLMHttpServer)

    @property
    def max_concurrency(self) -> int:
        """The number of concurrent calls to a server, which has to hold all that wait."""
        return max(REQUESTS_AT_ONCE, super().max_concurrency)


def admission_of(config: VllmConfig) -> KVAdmission | None:
    """Return the admission to an engine; `None` if it keeps nothing between two requests."""
    cache = config.cache_config
    if not cache.enable_prefix_caching or not cache.kv_cache_size_tokens:
        return None
    engines = config.parallel_config.data_parallel_size
    return KVAdmission(cache.kv_cache_size_tokens * engines, config.model_config.max_model_len)
