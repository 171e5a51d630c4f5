"""Rerankers whose model runs in this process."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents.store import Page, PageContent
from docagent_rl.retrieval.encoders.checkpoints import (
    MODULES,
    check_weights_loaded,
    placeholder_tokens,
    read_json,
    set_pixels,
)
from docagent_rl.retrieval.encoders.local import LocalModel, Texts, fill_prompt, prepare_image
from docagent_rl.retrieval.encoders.spec import PLACE
from docagent_rl.retrieval.rerank.spec import Pair, RerankerFamily, RerankerSpec

T = TypeVar("T")
LONGEST = 8192
"""Maximum tokens of a pair, for models that accept more."""
_CLASSIFIER = "ForSequenceClassification"
_NO_LIMIT = 1 << 20


class PairTexts:
    """The preparation of the texts of pairs of query and page.

    `limit` is the maximum number of tokens of a pair, `special` the number of those that the
    tokenizer adds; `named` is for messages.

    Raises:
        UserError: Query and prompts leave no room for a passage.
    """

    def __init__(
        self, texts: Texts, spec: RerankerSpec, *, limit: int, special: int, named: str
    ) -> None:
        self._texts = texts
        self._spec = spec
        prompts = filter(None, (spec.query_prompt, spec.page_prompt))
        around = "".join(prompt.replace(PLACE, "") for prompt in prompts)
        # 8 tokens of tolerance: a word that is cut may have more tokens than before
        left = min(limit, LONGEST) - special - texts.count(around) - spec.query_tokens - 8
        self.room = min(left, spec.page_tokens or left)
        if self.room < 8:
            raise UserError(
                f"{named}: only {self.room} of {limit} tokens are left for the passage; lower "
                "query_tokens"
            )

    def query(self, query: str) -> str:
        """Return a query in its prompt."""
        plain = self._texts.cut(self._texts.plain(query), self._spec.query_tokens)
        return fill_prompt(self._spec.query_prompt, plain)

    def passages(self, page: Page) -> list[str]:
        """Return the passages of a page's text and description in the prompt, at least one."""
        pieces = self._texts.passages(self._texts.plain(page.searched_text()), self.room)
        return [fill_prompt(self._spec.page_prompt, piece) for piece in pieces or [""]]

    def split(self, pairs: Sequence[Pair]) -> tuple[list[tuple[str, str]], list[int]]:
        """Return all texts of query and passage, and for each the number of its pair."""
        found = []
        owners = []
        for number, (query, page) in enumerate(pairs):
            passages = self.passages(page)
            found += [(self.query(query), passage) for passage in passages]
            owners += [number] * len(passages)
        return found, owners


def best_scores(scores: Sequence[float], owners: Sequence[int]) -> list[float]:
    """Return the best score of each owner; owners are numbered from 0 and have a score each."""
    best = [float("-inf")] * (owners[-1] + 1 if owners else 0)
    for score, owner in zip(scores, owners, strict=True):
        best[owner] = max(best[owner], score)
    return best


class LocalReranker(LocalModel):
    """A `Reranker` in this process; see `LocalModel`. `named` is the key of its section."""

    def __init__(self, spec: RerankerSpec, *, named: str = "rerank", **options: Any) -> None:
        super().__init__(spec, named=f"{named}.model", **options)
        self.spec = spec
        self._pairs: PairTexts
        self._loaded(spec.family)

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        """See `Reranker.score`."""
        return self._thread(lambda: self._scores(pairs)) if pairs else []

    def _scores(self, pairs: Sequence[Pair]) -> list[float]:
        if self.spec.content is PageContent.IMAGE:
            return self._in_batches(pairs, lambda pair: math.prod(pair[1].size), self._image_scores)
        texts, owners = self._pairs.split(pairs)
        scores = self._in_batches(texts, lambda pair: len(pair[0] + pair[1]), self._text_scores)
        return best_scores(scores, owners)

    @abstractmethod
    def _text_scores(self, pairs: list[tuple[str, str]]) -> Any:
        """Return the scores of a batch of queries and passages in prompts, as a tensor (n,)."""

    def _image_scores(self, pairs: list[Pair]) -> Any:
        raise NotImplementedError

    def _in_batches(
        self, items: Sequence[T], size: Callable[[T], int], score: Callable[[list[T]], Any]
    ) -> list[float]:
        """Return the score of each item; see `Batches.run`."""
        found = self._batches.run(items, size, lambda batch: score(batch).float().cpu().tolist())
        if not all(map(math.isfinite, found)):
            raise InfrastructureError(
                f"{self._named} returns scores that are not finite with dtype={self.spec.dtype}: "
                "use bfloat16 or float32, and check the model's files"
            )
        return found


class CrossEncoderReranker(LocalReranker):
    """A `LocalReranker` whose score is the logit of a classifier with one class."""

    def _load(self) -> None:
        from sentence_transformers import CrossEncoder

        architectures = read_json(self.folder / "config.json").get("architectures") or []
        if not (self.folder / MODULES).is_file() and not any(
            n.endswith(_CLASSIFIER) for n in architectures
        ):
            # otherwise, transformers would add a randomly initialised head
            raise UserError(
                f"{self._named} is not a cross-encoder: its architecture "
                f"{', '.join(architectures)} has no head as models {_CLASSIFIER} have"
            )
        self._model = CrossEncoder(str(self.folder), **self._options(self.spec.dtype))
        self._model.eval()
        if self._model.num_labels != 1:
            raise UserError(
                f"{self._named} has {self._model.num_labels} classes, but a reranker has one"
            )
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
    """A `LocalReranker` whose score is the logit of `yes` minus that of `no` after the prompt."""

    def _load(self) -> None:
        import torch
        import transformers

        config: Any = transformers.AutoConfig.from_pretrained(self.folder, local_files_only=True)
        sees = hasattr(config, "vision_config")
        if self.spec.content is PageContent.IMAGE and not sees:
            raise UserError(
                f"{self._named} is a model of type {config.model_type}, which reads no images"
            )
        reader = transformers.AutoProcessor if sees else transformers.AutoTokenizer
        self._processor: Any = reader.from_pretrained(self.folder, local_files_only=True)
        tokenizer = self._processor.tokenizer if sees else self._processor
        # with padding on the left, the last token is always in the last column
        tokenizer.padding_side = "left"
        kind: Any = (
            transformers.AutoModelForImageTextToText if sees else transformers.AutoModelForCausalLM
        )
        model, info = kind.from_pretrained(
            self.folder,
            dtype=getattr(torch, self.spec.dtype),
            output_loading_info=True,
            local_files_only=True,
        )
        check_weights_loaded(info, self._named)
        self._model: Any = model.eval().to(self._thread.device)
        self._answers = tokenizer.convert_tokens_to_ids(["yes", "no"])
        if None in self._answers or tokenizer.unk_token_id in self._answers:
            raise UserError(f"{self._named}: its tokenizer lacks a token `yes` or `no`")
        if sees:
            set_pixels(self._processor.image_processor, self.spec, self._named)
        text = getattr(config, "text_config", config)
        self._pairs = PairTexts(
            Texts(tokenizer, placeholder_tokens(self._processor) if sees else ()),
            self.spec,
            limit=min(getattr(text, "max_position_embeddings", _NO_LIMIT), LONGEST),
            special=0,
            named=self._named,
        )

    def _text_scores(self, pairs: list[tuple[str, str]]) -> Any:
        return self._differences([query + page for query, page in pairs])

    def _image_scores(self, pairs: list[Pair]) -> Any:
        texts = [self._pairs.query(query) + (self.spec.page_prompt or "") for query, _ in pairs]
        return self._differences(texts, images=[prepare_image(page.image()) for _, page in pairs])

    def _differences(self, texts: list[str], **images: Any) -> Any:
        batch = self._processor(
            text=texts, padding="longest", add_special_tokens=False, return_tensors="pt", **images
        ).to(self._thread.device)
        logits = self._model(**batch, use_cache=False, logits_to_keep=1).logits[:, -1].float()
        yes, no = self._answers
        return logits[:, yes] - logits[:, no]


def open_reranker(spec: RerankerSpec, **options: Any) -> LocalReranker:
    """Open the reranker of a specification in this process; see `LocalReranker`."""
    made = CrossEncoderReranker if spec.family is RerankerFamily.CROSS_ENCODER else YesNoReranker
    return made(spec, **options)
