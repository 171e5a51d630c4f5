"""Encoders that a vLLM server runs.

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
import string
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import numpy as np
from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.documents.store import PageContent
from docagent_rl.endpoints.http_client import public_url
from docagent_rl.retrieval.encoders.files import digest, model_folder, read_json
from docagent_rl.retrieval.encoders.local import fingerprint, finished, known_weights
from docagent_rl.retrieval.encoders.spec import EncoderSpec, Family
from docagent_rl.retrieval.encoders.texts import Texts, by_passage, prompted
from docagent_rl.retrieval.encoders.vllm_client import VllmClient

_HUB_ONLY = (Family.COLPALI, Family.COLMODERNVBERT)
_LONGEST = 512
_QUERY = 32
"""Tokens of a ColBERT's query, where its checkpoint says nothing."""


class ServedEncoder:
    """An `Encoder` at a server.

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
        self._late = spec.family.late_interaction
        stated = read_json(folder / "sentence_bert_config.json").get("max_seq_length")
        self._limit = min(stated or _LONGEST, self._client.longest or _LONGEST, spec.page_tokens or 8192)
        self._query_limit = self._limit
        self._markers: dict[str, int] = {}
        self._skipped: np.ndarray = np.zeros(0, np.int64)
        if spec.family is Family.COLBERT:
            self._read_colbert(read_json(folder / "artifact.metadata"))
        own = fingerprint(self.spec)
        served = hashlib.sha256(f"{own} without query padding".encode()).hexdigest()
        self.fingerprint: str = served if spec.family is Family.COLBERT else own
        (probe,) = self._encode(["probe"], "query")
        self.dim: int = probe.shape[1]

    def encode_queries(self, queries: Sequence[str]) -> list[np.ndarray]:
        """See `Encoder.encode_queries`.

        Raises:
            UserError: the server refuses a query.
            InfrastructureError: it does not answer.
        """
        room = min(self.spec.query_tokens, self._room(self.spec.query_prompt))
        plain = [self._texts.cut(self._texts.plain(query), room) for query in queries]
        return self._encode([prompted(self.spec.query_prompt, text) for text in plain], "query")

    def encode_pages(self, pages: Sequence[str] | Sequence[Image.Image]) -> list[np.ndarray]:
        """See `Encoder.encode_pages`; for texts.

        Raises:
            UserError: the model reads images, or the server refuses a page.
            InfrastructureError: it does not answer.
        """
        if self.content is PageContent.IMAGE:
            raise UserError("pages as images are encoded by the model itself: leave the endpoint out")
        room = self._room(self.spec.page_prompt)
        overlap = min(self.spec.overlap, room // 2)
        encode = partial(self._encode, role="document")
        texts = [self._texts.plain(page) for page in cast("Sequence[str]", pages)]
        split = [self._texts.passages(text, room, overlap) for text in texts]
        return by_passage(split, self.spec.page_prompt, self.dim, encode)

    def _room(self, prompt: str | None) -> int:
        # a ColBERT's marker and its token of grace: passages are those of `LateTextEncoder`
        special = self._tokenizer.num_special_tokens_to_add() + (2 if self._markers else 0)
        return self._limit - special - self._texts.count(prompted(prompt, ""))

    def _encode(self, texts: list[str], role: str) -> list[np.ndarray]:
        ids = [self._ids(text, role) for text in texts]
        found: list[np.ndarray] = []
        ask = self._client.embed_tokens if self._late else self._client.embed
        for start in range(0, len(ids), self._batch_size):
            batch = ids[start : start + self._batch_size]
            for each, vectors in zip(batch, ask(batch), strict=True):
                kept = vectors
                if self._late and role == "document":
                    kept = vectors[~np.isin(each, self._skipped)]
                found.append(finished(kept, self.spec, self._client.url))
        return found

    def _ids(self, text: str, role: str) -> list[int]:
        if self.spec.family is Family.COLPALI:
            text = self._tokenizer.bos_token + text
        limit = self._query_limit if role == "query" else self._limit
        ids: list[int] = self._tokenizer(text, truncation=True, max_length=limit)["input_ids"]
        marker = self._markers.get(role)
        # after [CLS], as Stanford's ColBERT has it
        return ids if marker is None else [*ids[:1], marker, *ids[1:-1][: limit - 3], ids[-1]]

    def _read_colbert(self, settings: dict[str, Any]) -> None:
        names = {"query": "query_token_id", "document": "doc_token_id"}
        defaults = {"query": "[unused0]", "document": "[unused1]"}
        convert = self._tokenizer.convert_tokens_to_ids
        self._markers = {role: convert(settings.get(key) or defaults[role]) for role, key in names.items()}
        self._limit = min(self._limit, int(settings.get("doc_maxlen") or self._limit))
        self._query_limit = min(self._query_limit, int(settings.get("query_maxlen") or _QUERY))
        if settings.get("mask_punctuation", True):
            known = {convert(mark) for mark in string.punctuation} - {self._tokenizer.unk_token_id}
            self._skipped = np.array(sorted(known), dtype=np.int64)


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
