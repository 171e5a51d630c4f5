"""Encoders of queries that a vLLM server runs.

What vLLM 0.24 serves (its registry of models):

| family | checkpoints | route |
|---|---|---|
| sentence_transformer | BERT, XLM-RoBERTa, Qwen2, ModernBERT: e5, BGE, gte, MiniLM | `/v1/embeddings` |
| colbert | HF_ColBERT (colbertv2.0) | `/pooling` |
| colpali, colmodernvbert | ColPaliForRetrieval, ColModernVBertForRetrieval; queries | `/pooling` |

It has no ColQwen2, no ColQwen2.5 and no ColIdefics3, and not the pooling of vdr-2b and gme: those run in the
process. Texts are tokenized here and sent as ids, so that prompts and lengths are those of the specification.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from docagent_rl.base.errors import UserError
from docagent_rl.documents.store import PageContent
from docagent_rl.endpoints.http_client import public_url
from docagent_rl.retrieval.encoders.files import digest, model_folder, read_json
from docagent_rl.retrieval.encoders.local import fingerprint, finished, known_weights
from docagent_rl.retrieval.encoders.spec import EncoderSpec, Family
from docagent_rl.retrieval.encoders.texts import Texts, prompted
from docagent_rl.retrieval.encoders.vllm_client import VllmClient

_HUB_ONLY = (Family.COLPALI, Family.COLMODERNVBERT)
_LONGEST = 512
_QUERY, _MARKER = 32, "[unused0]"
"""Tokens of a ColBERT's query and the one that marks it, where its checkpoint says nothing."""


class ServedEncoder:
    """An `Encoder` of queries at a server.

    That the server's weights are those of the specification is its operator's word; length and form of its
    vectors are checked. A ColBERT's queries are not padded with [MASK] there, for vLLM would attend to it:
    their vectors are fewer than sentence-transformers', and the fingerprint is another.

    Args:
        spec: the model; its files have to be here too, for the tokenizer and their digest.
        endpoint: `http://host:port`.
        batch_size: texts a request.

    Raises:
        UserError: vLLM does not serve the family, or the model's files are not here.
        InfrastructureError: the server does not answer.
    """

    def __init__(self, spec: EncoderSpec, endpoint: str, *, batch_size: int = 32) -> None:
        from transformers import AutoTokenizer

        folder = model_folder(spec.model, spec.revision, named="docagent.retriever.encoder.model")
        architectures = read_json(folder / "config.json").get("architectures") or []
        _check_served(spec, [str(name) for name in architectures], endpoint)
        self.spec = known_weights(spec, digest(folder), "docagent.retriever.encoder.model")
        self.content: PageContent = spec.content
        self._batch_size = batch_size
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self._texts = Texts(self._tokenizer)
        self._client = VllmClient(endpoint)
        stated = read_json(folder / "sentence_bert_config.json").get("max_seq_length")
        self._limit = min(stated or _LONGEST, self._client.longest or _LONGEST, spec.page_tokens or 8192)
        special = self._tokenizer.num_special_tokens_to_add()
        self._marker: int | None = None
        self.fingerprint = fingerprint(self.spec)
        self._room = self._limit - special - self._texts.count(prompted(spec.query_prompt, ""))
        if spec.family is Family.COLBERT:
            settings = read_json(folder / "artifact.metadata")
            self._marker = self._tokenizer.convert_tokens_to_ids(settings.get("query_token_id") or _MARKER)
            self._limit = min(self._limit, int(settings.get("query_maxlen") or _QUERY))
            unpadded = f"{self.fingerprint} without query padding"
            self.fingerprint = hashlib.sha256(unpadded.encode()).hexdigest()
        (probe,) = self._encode(["probe"])
        self.dim: int = probe.shape[1]

    def encode_queries(self, queries: Sequence[str]) -> list[np.ndarray]:
        """See `Encoder.encode_queries`.

        Raises:
            UserError: the server refuses a query.
            InfrastructureError: it does not answer.
        """
        room = min(self.spec.query_tokens, self._room)
        plain = [self._texts.cut(self._texts.plain(query), room) for query in queries]
        return self._encode([prompted(self.spec.query_prompt, text) for text in plain])

    def _encode(self, texts: list[str]) -> list[np.ndarray]:
        ids = [self._ids(text) for text in texts]
        ask = self._client.embed_tokens if self.spec.family.late_interaction else self._client.embed
        return [
            finished(vectors, self.spec, self._client.url)
            for start in range(0, len(ids), self._batch_size)
            for vectors in ask(ids[start : start + self._batch_size])
        ]

    def _ids(self, text: str) -> list[int]:
        if self.spec.family is Family.COLPALI:
            text = self._tokenizer.bos_token + text
        ids: list[int] = self._tokenizer(text, truncation=True, max_length=self._limit)["input_ids"]
        if self._marker is None:
            return ids
        # after [CLS], as Stanford's ColBERT has it
        return [*ids[:1], self._marker, *ids[1:-1][: self._limit - 3], ids[-1]]


def _check_served(spec: EncoderSpec, architectures: Sequence[str], endpoint: str) -> None:
    named = f"docagent.retriever.encoder.endpoint={public_url(endpoint)}"
    by_transformers = any(name.endswith("ForRetrieval") for name in architectures)
    text = spec.family is Family.SENTENCE_TRANSFORMER and spec.content is PageContent.TEXT
    stanford = spec.family is Family.COLBERT and "HF_ColBERT" in architectures
    hub = spec.family in _HUB_ONLY and by_transformers
    if not (text or stanford or hub):
        raise UserError(
            f"{named}: vLLM does not serve {spec.model} of family {spec.family} (its architectures: "
            f"{', '.join(architectures)}); set endpoint=null, so that it runs in the process"
        )
    if hub and spec.query_prompt is None:
        raise UserError(
            f"{named}: {spec.model} needs query_prompt, for vLLM knows no prompt of its processor"
        )
