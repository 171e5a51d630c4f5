"""Encoders of queries that a vLLM server runs.

What vLLM 0.24 serves (its registry of models):

| family | checkpoints | route |
|---|---|---|
| sentence_transformer | BERT, XLM-RoBERTa, Qwen2, ModernBERT: e5, BGE, gte, MiniLM | `/v1/embeddings` |
| colbert | HF_ColBERT (colbertv2.0) | `/pooling` |
| colpali, colmodernvbert | ColPaliForRetrieval, ColModernVBertForRetrieval; queries | `/pooling` |

It has no ColQwen2, no ColQwen2.5 and no ColIdefics3, and not the pooling of vdr-2b and gme: those run in the
process. So do the models on Qwen3-VL: it lists ColQwen3, OpsColQwen3 and ColQwen3.5, which were not tried
there, and neither was Qwen3-VL-Embedding. Texts are tokenized here and sent as ids, so that prompts and
lengths are those of the specification.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import httpx2
import numpy as np
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents.store import PageContent
from docagent_rl.endpoints.http_client import BodyError, check_url, client_of_run, public_url, read_body
from docagent_rl.retrieval.encoders.checkpoints import digest, model_folder, read_json
from docagent_rl.retrieval.encoders.local import Texts, fill_prompt, fingerprint, normalise, pin_weights
from docagent_rl.retrieval.encoders.spec import EncoderSpec, Family

_HUB_ONLY = (Family.COLPALI, Family.COLMODERNVBERT)
_LONGEST = 512
_QUERY, _MARKER = 32, "[unused0]"
"""Tokens of a ColBERT's query and the one that marks it, where its checkpoint says nothing."""
LONGEST_BODY = 256 << 20
"""Bytes of an answer: 32 queries of 600 tokens with 128 numbers have 5 MiB."""
_TYPES = {"float16": np.dtype("<f2"), "float32": np.dtype("<f4")}
_LATER = frozenset({408, 425, 429, 500, 502, 503, 504})


class ServedEncoder:
    """An `Encoder` of queries at a server, `http://host:port`.

    That the server's weights are those of the specification is its operator's word; length and form of its
    vectors are checked. The model's files have to be here too, for the tokenizer and their digest. A
    ColBERT's queries are not padded with [MASK] there, for vLLM would attend to it: their vectors are fewer
    than sentence-transformers', and the fingerprint is another.

    Raises:
        UserError: vLLM does not serve the family, or the model's files are not here.
        InfrastructureError: the server does not answer.
    """

    def __init__(self, spec: EncoderSpec, endpoint: str, *, batch_size: int = 32) -> None:
        from transformers import AutoTokenizer

        folder = model_folder(spec.model, spec.revision, named="docagent.retriever.encoder.model")
        architectures = read_json(folder / "config.json").get("architectures") or []
        _check_served(spec, [str(name) for name in architectures], endpoint)
        self.spec = pin_weights(spec, digest(folder), "docagent.retriever.encoder.model")
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
        self._room = self._limit - special - self._texts.count(fill_prompt(spec.query_prompt, ""))
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
        return self._encode([fill_prompt(self.spec.query_prompt, text) for text in plain])

    def _encode(self, texts: list[str]) -> list[np.ndarray]:
        ids = [self._ids(text) for text in texts]
        ask = self._client.embed_tokens if self.spec.family.late_interaction else self._client.embed
        return [
            normalise(vectors, self.spec, self._client.url)
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


class _ComeAgainError(Exception):
    """A failure that another try may mend."""


class VllmClient:
    """Asks `/v1/embeddings` for a vector a text, `/pooling` for one a token, `/score` for those of pairs.

    Raises:
        UserError: the URL is none.
        InfrastructureError: nobody answers there, or no such server.
    """

    def __init__(
        self,
        url: str,
        *,
        attempts: int = 3,
        timeout_s: float = 30.0,
        named: str = "docagent.retriever.encoder.endpoint",
    ) -> None:
        url = check_url(url, named)
        self.url = public_url(url)
        self._attempts, self._timeout_s = attempts, timeout_s
        try:
            self._client = client_of_run(url, timeout_s)
            _, body = self._ask("GET", "/v1/models")
            (found, *_) = json.loads(body)["data"]
            self.model, self.longest = str(found["id"]), int(found.get("max_model_len") or 0)
        except (ValueError, KeyError, TypeError) as error:
            raise InfrastructureError(f"{self.url}/v1/models is no list of vLLM's: {error!r}") from error

    def embed(self, inputs: Sequence[list[int]]) -> list[np.ndarray]:
        """Return one vector an input, float32 of shape (1, d)."""
        return [each.reshape(1, -1) for each in self._vectors("/v1/embeddings", inputs, "float32", {})]

    def embed_tokens(self, inputs: Sequence[list[int]]) -> list[np.ndarray]:
        """Return one vector a token of each input, float32 of shape (t, d); they travel as float16."""
        return self._vectors("/pooling", inputs, "float16", {"task": "token_embed"})

    def scores(
        self, queries: Sequence[str], pages: Sequence[str | Mapping[str, Any]], *, activation: bool
    ) -> list[float]:
        """Return the score of each pair of query and page, which is a text or what vLLM takes as image."""
        content = {
            "model": self.model,
            "queries": list(queries),
            "documents": list(pages),
            "use_activation": activation,
        }
        _, body = self._ask("POST", "/score", content)
        try:
            items = sorted(json.loads(body)["data"], key=lambda item: item["index"])
            found = [float(item["score"]) for item in items]
        except (ValueError, KeyError, TypeError) as error:
            raise InfrastructureError(f"{self.url}/score answers in another form: {error!r}") from error
        if len(found) != len(queries) or not np.isfinite(found).all():
            raise InfrastructureError(
                f"{self.url}/score gave {len(found)} scores of {len(queries)} pairs, or some are not finite"
            )
        return found

    def _vectors(
        self, path: str, inputs: Sequence[list[int]], dtype: str, more: dict[str, str]
    ) -> list[np.ndarray]:
        content = {
            "model": self.model,
            "input": list(inputs),
            "encoding_format": "bytes",
            "embed_dtype": dtype,
            "endianness": "little",
            **more,
        }
        metadata, body = self._ask("POST", path, content)
        try:
            items = sorted(json.loads(metadata or "")["data"], key=lambda item: item["index"])
            found = [_read(item, body) for item in items]
        except (ValueError, KeyError, TypeError) as error:
            raise InfrastructureError(f"{self.url}{path} answers in another form: {error!r}") from error
        if len(found) != len(inputs):
            raise InfrastructureError(f"{self.url}{path} gave {len(found)} answers to {len(inputs)} inputs")
        return found

    def _ask(self, method: str, path: str, content: Any = None) -> tuple[str | None, bytes]:
        """Return the metadata and the body of an answer.

        Raises:
            UserError: the server refuses the request.
            InfrastructureError: it fails every time.
        """
        tries = Retrying(
            retry=retry_if_exception_type(_ComeAgainError),
            stop=stop_after_attempt(self._attempts),
            wait=wait_exponential_jitter(0.2, max=5.0),
            reraise=True,
        )
        try:
            return tries(self._ask_once, method, path, content)
        except _ComeAgainError as error:
            tried = f"{self._attempts} tries"
            raise InfrastructureError(f"{self.url}{path} does not answer after {tried}: {error}") from error

    def _ask_once(self, method: str, path: str, content: Any) -> tuple[str | None, bytes]:
        until = time.monotonic() + self._timeout_s
        try:
            with self._client.stream(method, path, json=content) as response:
                body = read_body(response, longest=LONGEST_BODY, until=until)
        except BodyError as error:
            raise InfrastructureError(f"{self.url}{path}: {error}") from error
        except httpx2.HTTPError as error:
            raise _ComeAgainError(f"{type(error).__name__}: {error}") from error
        text = body[:300].decode("utf-8", "replace")
        if response.status_code in _LATER:
            raise _ComeAgainError(f"{response.status_code}: {text}")
        if not response.is_success:  # a redirect is refused as well
            raise UserError(f"{self.url}{path} refuses ({response.status_code}): {text}")
        return response.headers.get("metadata"), body


def _read(item: dict[str, Any], body: bytes) -> np.ndarray:
    """Return the array that an item of the metadata describes."""
    dtype, shape = _TYPES[item["embed_dtype"]], tuple(int(size) for size in item["shape"])
    raw = np.frombuffer(body[int(item["start"]) : int(item["end"])], dtype)
    return raw.reshape(shape).astype(np.float32)
