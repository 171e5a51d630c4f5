"""Encoders of queries that a vLLM server runs.

vLLM 0.24 pools BERT, XLM-RoBERTa, Qwen2 and ModernBERT: e5, BGE, gte, MiniLM. It has no ColQwen2 and no
ColQwen2.5, and not the pooling of vdr-2b and gme; ColBERT's queries lose their padding there. Those run in
the process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from docagent_rl.base.errors import UserError
from docagent_rl.documents.store import PageContent
from docagent_rl.retrieval.encoders.checkpoints import digest, model_folder, read_json
from docagent_rl.retrieval.encoders.local import Texts, fill_prompt, fingerprint, normalise, pin_weights
from docagent_rl.retrieval.encoders.spec import EncoderSpec, Family
from docagent_rl.retrieval.pooling_server import PoolingServer

_KEY = "docagent.retriever.encoder"
_LONGEST = 512


class ServedEncoder:
    """An `Encoder` of queries at a server, `http://host:port`: one vector a text.

    Texts are tokenized here and sent as ids, so that prompts and lengths are those of the specification; the
    model's files have to be here too, for the tokenizer and their digest. That the server's weights are the
    same is its operator's word.

    Raises:
        UserError: vLLM does not serve the family, or the model's files are not here.
        InfrastructureError: the server does not answer.
    """

    def __init__(self, spec: EncoderSpec, endpoint: str, *, batch_size: int = 32) -> None:
        from transformers import AutoTokenizer

        if spec.family is not Family.SENTENCE_TRANSFORMER or spec.content is not PageContent.TEXT:
            raise UserError(
                f"{_KEY}.endpoint: {spec.model} of family {spec.family} cannot be asked at a server; set "
                "endpoint=null, so that it runs in the process"
            )
        folder = model_folder(spec.model, spec.revision, named=f"{_KEY}.model")
        self.spec = pin_weights(spec, digest(folder), f"{_KEY}.model")
        self.content: PageContent = spec.content
        self.fingerprint = fingerprint(self.spec)
        self._batch_size = batch_size
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self._texts = Texts(self._tokenizer)
        self._server = PoolingServer(endpoint, named=f"{_KEY}.endpoint")
        stated = read_json(folder / "sentence_bert_config.json").get("max_seq_length")
        self._limit = min(stated or _LONGEST, self._server.longest or _LONGEST, spec.page_tokens or 8192)
        special = self._tokenizer.num_special_tokens_to_add()
        self._room = self._limit - special - self._texts.count(fill_prompt(spec.query_prompt, ""))
        (probe,) = self.encode_queries(["probe"])
        self.dim: int = probe.shape[1]

    def encode_queries(self, queries: Sequence[str]) -> list[np.ndarray]:
        """See `Encoder.encode_queries`.

        Raises:
            UserError: the server refuses a query.
            InfrastructureError: it does not answer.
        """
        room = min(self.spec.query_tokens, self._room)
        plain = [self._texts.cut(self._texts.plain(query), room) for query in queries]
        ids = [self._ids(fill_prompt(self.spec.query_prompt, text)) for text in plain]
        return [
            normalise(vector.reshape(1, -1), self.spec, self._server.url)
            for start in range(0, len(ids), self._batch_size)
            for vector in self._server.embed(ids[start : start + self._batch_size])
        ]

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer(text, truncation=True, max_length=self._limit)["input_ids"]
