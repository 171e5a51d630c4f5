"""vLLM in this process, with token ids as input, set up as in verl's rollout server."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from verl.plugin.platform import get_platform
from verl.workers.rollout.utils import get_vision_placeholder_token_ids
from vllm import SamplingParams
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.inputs import TokensPrompt
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.rollout.images import EncodedImage, WholeImage
from docagent_rl.rollout.patches import unpack
from docagent_rl.rollout.rollout import Sampled
from docagent_rl.training.engine.settings import EngineSampling, EngineSettings
from docagent_rl.training.serving.pages import IMAGE, EvictedError, PagePreprocessor, Pages
from docagent_rl.training.serving.requests import NamedImage, SentImage

EXTENSION = "verl.workers.rollout.vllm_rollout.utils.vLLMColocateWorkerExtension"
"""It masks the ids that a policy must never sample."""


class OwnPages(Pages):
    """Images of this process, whose patches need not be fetched."""

    async def _fetch(self, image: NamedImage) -> torch.Tensor:
        return unpack(image.handle, image.layout, self._dtype)


class TokenEngine:
    """A vLLM engine that takes token ids, and returns token ids with their log-probabilities.

    As in a rollout, image placeholders and ids beyond the tokenizer's vocabulary are never sampled.
    Starting takes half a minute or longer; it needs a running event loop, and blocks it.

    Raises:
        UserError: vLLM refuses the model or the settings, or the engine does not start.
    """

    def __init__(self, settings: EngineSettings, tokenizer: Any, processor: Any | None) -> None:
        settings.prepare(get_platform().rollout_env_vars())
        self._processor = processor
        self._settings = settings
        self._vocabulary = len(tokenizer)
        self._numbers = itertools.count()
        with _starting(settings.model):
            arguments = AsyncEngineArgs(
                model=settings.model, worker_extension_cls=EXTENSION, **settings.arguments
            )
            self._engine = AsyncLLM.from_engine_args(arguments)
            dtype = cast("torch.dtype", self._engine.model_config.dtype)
            self._pages = OwnPages(self._engine.renderer, dtype)
            self._engine.input_processor.input_preprocessor = PagePreprocessor(
                self._engine, self._pages
            )

    async def ready(self) -> None:
        """Finish the set-up before the first request.

        Raises:
            UserError: the engine died.
        """
        with _starting(self._settings.model):
            await self._engine.collective_rpc(
                method="monkey_patch_model",
                kwargs={
                    "vocab_size": self._vocabulary,
                    "banned_token_ids": get_vision_placeholder_token_ids(self._processor),
                },
            )

    async def generate(
        self,
        ids: Sequence[int],
        images: Sequence[EncodedImage],
        *,
        most: int,
        stops: Sequence[int],
        seed: int,
        sampling: EngineSampling | None = None,
    ) -> Sampled:
        """Sample up to one of the ids `stops`, which is included, and at most `most` tokens.

        `ids` contains one placeholder for each token of an image. `sampling` defaults to that of
        the settings.

        Raises:
            InfrastructureError: the engine died.
        """
        how = sampling or self._settings.sampling
        room = int(self._engine.model_config.max_model_len) - len(ids)
        if room < 1:
            raise UserError(
                f"a context of {len(ids)} tokens leaves no room for another turn: raise "
                f"actor_rollout_ref.rollout.max_model_len={self._engine.model_config.max_model_len}"
            )
        parameters = SamplingParams(
            temperature=how.temperature,
            top_p=how.top_p,
            top_k=how.top_k,
            repetition_penalty=how.repetition_penalty,
            max_tokens=min(most, room),
            stop_token_ids=list(stops),
            logprobs=0,
            seed=seed,
            detokenize=False,
        )
        # the patches themselves serve as the handle, as they are in this process
        named = [
            image if isinstance(image, WholeImage) else NamedImage.of(image, image.patches)
            for image in images
        ]
        try:
            return await self._sample(ids, named, parameters, every=False)
        except EvictedError:
            return await self._sample(ids, named, parameters, every=True)
        except EngineDeadError as error:
            raise InfrastructureError(
                f"the engine of {self._settings.model} died: {error}"
            ) from error

    async def _sample(
        self,
        ids: Sequence[int],
        named: Sequence[SentImage],
        parameters: SamplingParams,
        *,
        every: bool,
    ) -> Sampled:
        data = {}
        if named:
            loaded, _ = await self._pages.load(named, every=every)
            data = {IMAGE: loaded}
        final = None
        request: Any = TokensPrompt(prompt_token_ids=list(ids), multi_modal_data=data)
        async for output in self._engine.generate(
            request, parameters, f"play-{next(self._numbers)}"
        ):
            final = output
        if final is None:
            raise InfrastructureError(
                "vLLM ended a request without output: see its log, and try again"
            )
        (reply,) = final.outputs
        chosen = zip(reply.token_ids, reply.logprobs or (), strict=True)
        return Sampled(list(reply.token_ids), [found[token].logprob for token, found in chosen])

    def close(self) -> None:
        """End the engine's processes; it may be called twice."""
        self._engine.shutdown()


@contextmanager
def _starting(model: str) -> Generator[None]:
    try:
        yield
    except (ValueError, RuntimeError, OSError, EngineDeadError) as error:
        raise UserError(
            f"vLLM cannot start {model}: {type(error).__name__}: {error}. See the output of its "
            "processes above"
        ) from error
