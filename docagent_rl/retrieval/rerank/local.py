"""Rerankers whose model runs in this process."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents.store import PageContent
from docagent_rl.retrieval.encoders.checkpoints import (
    MODULES,
    check_complete,
    image_tokens,
    read_json,
    set_pixels,
)
from docagent_rl.retrieval.encoders.local import LocalModel, Texts, prepare_image
from docagent_rl.retrieval.rerank.passages import LONGEST, PairTexts, best_scores
from docagent_rl.retrieval.rerank.spec import Pair, RerankerFamily, RerankerSpec

T = TypeVar("T")
_CLASSIFIER, _NO_LIMIT = "ForSequenceClassification", 1 << 20


class LocalReranker(LocalModel):
    """A `Reranker`; see `LocalModel`. `named` is the key of its section."""

    def __init__(
        self,
        spec: RerankerSpec,
        *,
        device: str | None = None,
        batch_size: int = 16,
        threads: int | None = None,
        named: str = "rerank",
    ) -> None:
        options: dict[str, Any] = {"device": device, "batch_size": batch_size, "threads": threads}
        super().__init__(spec, named=f"{named}.model", device_key=f"{named}.device", **options)
        self.spec = spec
        self._pairs: PairTexts
        self._loaded(spec.family)

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        """See `Reranker.score`."""
        return self._lane(lambda: self._scores(pairs)) if pairs else []

    def _scores(self, pairs: Sequence[Pair]) -> list[float]:
        if self.spec.content is PageContent.IMAGE:
            return self._in_batches(pairs, lambda pair: math.prod(pair[1].size), self._image_scores)
        texts, owners = self._pairs.split(pairs)
        scores = self._in_batches(texts, lambda pair: len(pair[0] + pair[1]), self._text_scores)
        return best_scores(scores, owners)

    @abstractmethod
    def _text_scores(self, pairs: list[tuple[str, str]]) -> Any:
        """Return the scores of a batch of queries and passages in their prompts, a tensor of shape (n,)."""

    def _image_scores(self, pairs: list[Pair]) -> Any:
        raise NotImplementedError

    def _in_batches(
        self, items: Sequence[T], size: Callable[[T], int], score: Callable[[list[T]], Any]
    ) -> list[float]:
        """Return the score of each item; see `Batches.run`."""
        found = self._batches.run(items, size, lambda batch: score(batch).float().cpu().tolist())
        if not all(map(math.isfinite, found)):
            raise InfrastructureError(
                f"{self._named} gives scores that are not finite with dtype={self.spec.dtype}: use bfloat16 "
                "or float32, and check the model's files"
            )
        return found


class CrossEncoderReranker(LocalReranker):
    """See `LocalReranker`; the logit of a classifier with one class, before any activation."""

    def _load(self) -> None:
        import torch
        from sentence_transformers import CrossEncoder

        architectures = read_json(self.folder / "config.json").get("architectures") or []
        if not (self.folder / MODULES).is_file() and not any(n.endswith(_CLASSIFIER) for n in architectures):
            # transformers would add a head drawn at random
            raise UserError(
                f"{self._named} is no cross-encoder: its architecture is {', '.join(architectures)}, without "
                f"the head of a model {_CLASSIFIER}"
            )
        self._model = CrossEncoder(
            str(self.folder),
            device=str(self._lane.device),
            local_files_only=True,
            model_kwargs={"dtype": getattr(torch, self.spec.dtype)},
        )
        self._model.eval()
        if self._model.num_labels != 1:
            raise UserError(f"{self._named} has {self._model.num_labels} classes; a reranker has one")
        tokenizer: Any = self._model.tokenizer
        self._pairs = PairTexts(
            Texts(tokenizer),
            self.spec,
            limit=min(self._model.max_seq_length or LONGEST, LONGEST),
            special=tokenizer.num_special_tokens_to_add(pair=True),
            named=self._named,
        )

    def _text_scores(self, pairs: list[tuple[str, str]]) -> Any:
        import torch

        return self._model.predict(
            pairs,
            batch_size=len(pairs),
            show_progress_bar=False,
            activation_fn=torch.nn.Identity(),
            convert_to_tensor=True,
        )


class YesNoReranker(LocalReranker):
    """See `LocalReranker`; the logit of `yes` minus that of `no` after the prompt."""

    def _load(self) -> None:
        import torch
        import transformers

        config: Any = transformers.AutoConfig.from_pretrained(self.folder, local_files_only=True)
        sees = hasattr(config, "vision_config")
        if self.spec.content is PageContent.IMAGE and not sees:
            raise UserError(f"{self._named} is a model of type {config.model_type}, which reads no images")
        reader = transformers.AutoProcessor if sees else transformers.AutoTokenizer
        self._processor: Any = reader.from_pretrained(self.folder, local_files_only=True)
        tokenizer = self._processor.tokenizer if sees else self._processor
        # the last token is the last column then
        tokenizer.padding_side = "left"
        kind: Any = transformers.AutoModelForImageTextToText if sees else transformers.AutoModelForCausalLM
        model, info = kind.from_pretrained(
            self.folder,
            dtype=getattr(torch, self.spec.dtype),
            output_loading_info=True,
            local_files_only=True,
        )
        check_complete(info, self._named)
        self._model: Any = model.eval().to(self._lane.device)
        self._answers = [self._token(tokenizer, each) for each in (self.spec.yes, self.spec.no)]
        if sees:
            set_pixels(self._processor.image_processor, self.spec, self._named)
        text = getattr(config, "text_config", config)
        self._pairs = PairTexts(
            Texts(tokenizer, image_tokens(self._processor) if sees else ()),
            self.spec,
            limit=min(getattr(text, "max_position_embeddings", _NO_LIMIT), LONGEST),
            special=0,
            named=self._named,
        )

    def _token(self, tokenizer: Any, word: str) -> int:
        ids = tokenizer(word, add_special_tokens=False)["input_ids"]
        if len(ids) != 1:
            raise UserError(
                f"{self._named}: {word!r} is {len(ids)} tokens of its tokenizer, and one is compared"
            )
        return int(ids[0])

    def _text_scores(self, pairs: list[tuple[str, str]]) -> Any:
        return self._differences([query + page for query, page in pairs])

    def _image_scores(self, pairs: list[Pair]) -> Any:
        texts = [self._pairs.query(query) + (self.spec.page_prompt or "") for query, _ in pairs]
        return self._differences(texts, images=[prepare_image(page.image()) for _, page in pairs])

    def _differences(self, texts: list[str], **images: Any) -> Any:
        batch = self._processor(
            text=texts, padding="longest", add_special_tokens=False, return_tensors="pt", **images
        ).to(self._lane.device)
        logits = self._model(**batch, use_cache=False, logits_to_keep=1).logits[:, -1].float()
        yes, no = self._answers
        return logits[:, yes] - logits[:, no]


def open_local(spec: RerankerSpec, **options: Any) -> LocalReranker:
    """Open the model of a specification in this process; see `LocalReranker`."""
    made = CrossEncoderReranker if spec.family is RerankerFamily.CROSS_ENCODER else YesNoReranker
    return made(spec, **options)
