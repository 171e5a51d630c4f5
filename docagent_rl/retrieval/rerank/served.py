"""Rerankers that a vLLM server runs (`POST /score`).

Texts are prepared here, so that prompts, passages and lengths are those of the specification. Page images go
as they are stored, with the query alone: the server has the prompt as its chat template.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any

from docagent_rl.documents.store import PageContent
from docagent_rl.retrieval.encoders.checkpoints import model_folder, read_json
from docagent_rl.retrieval.encoders.local import Texts
from docagent_rl.retrieval.encoders.served import VllmClient
from docagent_rl.retrieval.rerank.passages import LONGEST, PairTexts, best_scores
from docagent_rl.retrieval.rerank.spec import Pair, RerankerFamily, RerankerSpec

_NEAREST = 2.0**-25


class ServedReranker:
    """A `Reranker` at a server, `http://host:port`.

    That the server runs the model of the specification is its operator's word. The model's tokenizer and
    config.json have to be here too. Scores are those before any activation, as of a model in the process;
    logits of cross-encoders above 17 are 17, for they come as probabilities.

    Raises:
        UserError: the tokenizer is not here.
        InfrastructureError: the server does not answer.
    """

    def __init__(
        self, spec: RerankerSpec, endpoint: str, *, batch_size: int = 16, named: str = "rerank"
    ) -> None:
        from transformers import AutoTokenizer

        folder = model_folder(spec.model, spec.revision, named=f"{named}.model")
        tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self.spec, self._batch_size = spec, batch_size
        self._client = VllmClient(endpoint, named=f"{named}.endpoint")
        paired = spec.family is RerankerFamily.CROSS_ENCODER
        # without it vLLM 0.24 leaves out the activation inside of a BERT's head as well
        self._activation = paired
        self._squeezed = paired and not _is_identity(read_json(folder / "config.json"))
        self._texts = Texts(tokenizer)
        self._pairs = PairTexts(
            self._texts,
            spec,
            limit=min(self._client.longest or LONGEST, LONGEST),
            special=tokenizer.num_special_tokens_to_add(pair=True) if paired else 0,
            named=f"{named}.model={spec.model}",
        )

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        """See `Reranker.score`.

        Raises:
            UserError: the server refuses a pair.
            InfrastructureError: it does not answer.
        """
        if self.spec.content is PageContent.TEXT:
            texts, owners = self._pairs.split(pairs)
            return best_scores(self._scores(texts), owners)
        return self._scores([(self._plain(query), _image(page.image_bytes())) for query, page in pairs])

    def _plain(self, query: str) -> str:
        return self._texts.cut(self._texts.plain(query), self.spec.query_tokens)

    def _scores(self, pairs: Sequence[tuple[str, Any]]) -> list[float]:
        found: list[float] = []
        for start in range(0, len(pairs), self._batch_size):
            queries, pages = zip(*pairs[start : start + self._batch_size], strict=True)
            found += self._client.scores(queries, pages, activation=self._activation)
        return list(map(_logit, found)) if self._squeezed else found


def _is_identity(config: Mapping[str, Any]) -> bool:
    """Return whether scores leave a cross-encoder as they are, by its config.json; they are sigmoids else."""
    stated = config.get("sentence_transformers") or {}
    named = stated.get("activation_fn") or config.get("sbert_ce_default_activation_function") or ""
    return config.get("problem_type") == "regression" or str(named).endswith("Identity")


def _logit(probability: float) -> float:
    """Return the logit of a probability in float32, where 1 and 0 stand for their neighbours."""
    kept = min(max(probability, _NEAREST), 1 - _NEAREST)
    return math.log(kept / (1 - kept))


def _image(jpeg: bytes) -> dict[str, Any]:
    url = f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}"
    return {"content": [{"type": "image_url", "image_url": {"url": url}}]}
