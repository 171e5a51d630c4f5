"""Rerankers of texts that a vLLM server runs (`POST /score`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.documents.store import PageContent
from docagent_rl.retrieval.encoders.checkpoints import model_folder, read_json
from docagent_rl.retrieval.encoders.local import Texts
from docagent_rl.retrieval.pooling_server import PoolingServer
from docagent_rl.retrieval.rerank.passages import LONGEST, PairTexts, best_scores
from docagent_rl.retrieval.rerank.spec import Pair, RerankerFamily, RerankerSpec

_NEAREST = 2.0**-25


class ServedReranker:
    """A `Reranker` at a server, `http://host:port`.

    Texts are prepared here, so that prompts, passages and lengths are those of the specification; the model's
    tokenizer and config.json have to be here too. That the server runs the same model is its operator's word.
    Scores are those before any activation, as of a model in the process; logits of cross-encoders end near
    17, for they come as probabilities.

    Raises:
        UserError: the model reads images, or its tokenizer is not here.
        InfrastructureError: the server does not answer.
    """

    def __init__(
        self, spec: RerankerSpec, endpoint: str, *, batch_size: int = 16, named: str = "rerank"
    ) -> None:
        from transformers import AutoTokenizer

        if spec.content is not PageContent.TEXT:
            raise UserError(f"{named}.endpoint: {spec.model} reads images: set endpoint=null")
        folder = model_folder(spec.model, spec.revision, named=f"{named}.model")
        tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self.spec, self._batch_size = spec, batch_size
        self._server = PoolingServer(endpoint, named=f"{named}.endpoint")
        # without it vLLM 0.24 leaves out the activation inside of a BERT's head as well
        self._activation = spec.family is RerankerFamily.CROSS_ENCODER
        self._squeezed = self._activation and not _is_identity(read_json(folder / "config.json"))
        self._pairs = PairTexts(
            Texts(tokenizer),
            spec,
            limit=min(self._server.longest or LONGEST, LONGEST),
            special=tokenizer.num_special_tokens_to_add(pair=True) if self._activation else 0,
            named=f"{named}.model={spec.model}",
        )

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        """See `Reranker.score`.

        Raises:
            UserError: the server refuses a pair.
            InfrastructureError: it does not answer.
        """
        texts, owners = self._pairs.split(pairs)
        found: list[float] = []
        for start in range(0, len(texts), self._batch_size):
            queries, pages = zip(*texts[start : start + self._batch_size], strict=True)
            found += self._server.scores(queries, pages, activation=self._activation).tolist()
        return best_scores(list(map(_logit, found)) if self._squeezed else found, owners)


def _is_identity(config: Mapping[str, Any]) -> bool:
    """Return whether scores leave a cross-encoder as they are, by its config.json; they are sigmoids else."""
    stated = config.get("sentence_transformers") or {}
    named = stated.get("activation_fn") or config.get("sbert_ce_default_activation_function") or ""
    return config.get("problem_type") == "regression" or str(named).endswith("Identity")


def _logit(probability: float) -> float:
    """Return the logit of a probability in float32, where 1 and 0 stand for their neighbours."""
    kept = min(max(probability, _NEAREST), 1 - _NEAREST)
    return math.log(kept / (1 - kept))
