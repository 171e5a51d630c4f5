"""verl's vLLM server for images that agent loops have preprocessed."""

import argparse
from functools import partial
from typing import Any, cast

import ray
import torch
from verl.workers.rollout.replica import TokenOutput
from verl.workers.rollout.vllm_rollout import vllm_async_server as upstream

from docagent_rl.training.serving.pages import EvictedError, PagePreprocessor, Pages
from docagent_rl.training.serving.requests import LOADS, all_named


class vLLMHttpServer(upstream.vLLMHttpServer):  # noqa: N801  the name by which verl's is known and watched
    """A server that accepts images by name (`NamedImage`), and fetches those its engine lacks."""

    async def run_server(self, args: argparse.Namespace) -> None:
        """Start verl's server, and make its engine's front end accept preprocessed images."""
        await super().run_server(args)
        self._pages = Pages(
            self.engine.renderer, cast("torch.dtype", self.engine.model_config.dtype)
        )
        self.engine.input_processor.input_preprocessor = PagePreprocessor(self.engine, self._pages)

    # arguments that are not used here are passed on
    async def generate(  # ty: ignore[incompatible-method-override]
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
