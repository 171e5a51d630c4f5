"""Clients of vLLM pooling servers: query encoders and text rerankers.

vLLM 0.24 can pool BERT, XLM-RoBERTa, Qwen2 and ModernBERT: e5, BGE, gte, MiniLM. It supports
neither ColQwen2 and ColQwen2.5 nor the pooling of vdr-2b and gme, and drops the padding of
ColBERT's queries. Those models have to run in the process. Texts are prepared by the client with
the prompts, passages and lengths of the specification, so it needs the model's tokenizer, too.
Nothing checks that the server runs the same model.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx2
import numpy as np

from docagent_rl.base.errors import UserError
from docagent_rl.documents.store import PageContent
from docagent_rl.endpoints.http_client import BodyError, check_url, client_options, public_url
from docagent_rl.endpoints.retrying import in_background
from docagent_rl.retrieval.base import NotTakenError, ServiceFailedError
from docagent_rl.retrieval.encoders.checkpoints import digest, model_folder, read_json
from docagent_rl.retrieval.encoders.local import (
    Texts,
    fill_prompt,
    fingerprint,
    normalise,
    pin_weights,
)
from docagent_rl.retrieval.encoders.spec import ArchitectureFamily, EncoderSpec
from docagent_rl.retrieval.rerank.local import LONGEST, PairTexts, best_scores
from docagent_rl.retrieval.rerank.spec import BATCH, Pair, RerankerFamily, RerankerSpec

_TIMEOUT_S = 30.0
_LATER = frozenset({408, 425, 429, 500, 502, 503, 504})
_KEY = "docagent.retriever.encoder"
_LONGEST_QUERY = 512


class PoolingServer:
    """A client of `vllm serve --runner pooling` at `http://host:port`.

    `named` is the key of the address, for messages.

    Raises:
        UserError: The address is wrong.
        ServiceFailedError: There is no response, or not from such a server; callers should retry.
    """

    def __init__(self, url: str, *, named: str) -> None:
        url = check_url(url, named)
        self.url = public_url(url)
        # a server of the run is never behind a proxy of the environment
        options: dict[str, Any] = {**client_options(url), "trust_env": False}
        self._client = httpx2.AsyncClient(base_url=url, timeout=_TIMEOUT_S, **options)
        (found,) = self._data("GET", "/v1/models", ("id", "max_model_len"))
        self.model = str(found[0])
        self.longest = int(found[1] or 0)

    def embed(self, inputs: Sequence[list[int]]) -> np.ndarray:
        """Return one vector per sequence of token ids, float32 of shape (n, d)."""
        content = {"input": list(inputs), "encoding_format": "float"}
        return self._numbers("/v1/embeddings", content, "embedding", len(inputs)).astype(np.float32)

    def scores(
        self, queries: Sequence[str], pages: Sequence[str], *, activation: bool
    ) -> np.ndarray:
        """Return the score of each pair of query and page, shape (n,)."""
        content = {"queries": list(queries), "documents": list(pages), "use_activation": activation}
        return self._numbers("/score", content, "score", len(queries))

    def _numbers(self, path: str, content: dict[str, Any], key: str, count: int) -> np.ndarray:
        found = self._data("POST", path, ("index", key), {"model": self.model, **content})
        numbers = np.array([value for _, value in sorted(found, key=lambda pair: pair[0])], float)
        if len(numbers) != count or not np.isfinite(numbers).all():
            raise ServiceFailedError(
                f"{self.url}{path} returned {len(numbers)} results for {count} inputs, or some "
                "that are not finite"
            )
        return numbers

    def _data(
        self, method: str, path: str, keys: Sequence[str], content: Any = None
    ) -> list[tuple[Any, ...]]:
        """Send a request, and return the values of some keys of each item in the response.

        Raises:
            UserError: The server refuses the request.
            ServiceFailedError: It fails, or responds in another form.
        """
        try:
            reply = in_background(self._reply(method, path, content))
            if reply.is_success:
                return [tuple(item[key] for key in keys) for item in reply.json()["data"]]
        except httpx2.ConnectError as error:
            raise NotTakenError(f"{self.url}{path}: {error!r}") from error
        except (httpx2.HTTPError, BodyError, TimeoutError) as error:
            raise ServiceFailedError(f"{self.url}{path}: {error!r}") from error
        except (ValueError, LookupError, TypeError) as error:
            raise ServiceFailedError(
                f"{self.url}{path} does not respond as vLLM does: {error!r}"
            ) from error
        failed = ServiceFailedError if reply.status_code in _LATER else UserError
        raise failed(f"{self.url}{path} returned HTTP {reply.status_code}: {reply.text[:300]}")

    async def _reply(self, method: str, path: str, content: Any) -> httpx2.Response:
        # needed since the client's own timeout restarts with every piece of a reply
        async with asyncio.timeout(_TIMEOUT_S):
            return await self._client.request(method, path, json=content)


class ServedEncoder:
    """A query `Encoder` on a server at `http://host:port`: one vector per text, sent as token ids.

    Raises:
        UserError: vLLM does not support the family, or the tokenizer's files are missing here.
        InfrastructureError: The server does not respond.
    """

    def __init__(self, spec: EncoderSpec, endpoint: str) -> None:
        from transformers import AutoTokenizer

        if spec.family is not ArchitectureFamily.SENTENCE_TRANSFORMER:
            raise UserError(
                f"{_KEY}.endpoint: {spec.model} of family {spec.family} cannot run on a server; "
                "set endpoint=null to run it in the process"
            )
        folder = model_folder(spec.model, spec.revision, named=f"{_KEY}.model")
        self.spec = pin_weights(spec, digest(folder), f"{_KEY}.model")
        self.content: PageContent = spec.content
        self.fingerprint = fingerprint(self.spec)
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self._texts = Texts(self._tokenizer)
        self._server = PoolingServer(endpoint, named=f"{_KEY}.endpoint")
        stated = (
            read_json(folder / "sentence_bert_config.json").get("max_seq_length") or _LONGEST_QUERY
        )
        self._limit = min(
            stated, self._server.longest or _LONGEST_QUERY, spec.page_tokens or LONGEST
        )
        special = self._tokenizer.num_special_tokens_to_add()
        self._room = self._limit - special - self._texts.count(fill_prompt(spec.query_prompt, ""))
        (probe,) = self.encode_queries(["probe"])
        self.dim: int = probe.shape[1]

    def encode_queries(self, queries: Sequence[str]) -> list[np.ndarray]:
        """See `Encoder.encode_queries`.

        Raises:
            UserError: The server refuses a query.
            InfrastructureError: The server does not respond.
        """
        room = min(self.spec.query_tokens, self._room)
        plain = [self._texts.cut(self._texts.plain(query), room) for query in queries]
        filled = [fill_prompt(self.spec.query_prompt, text) for text in plain]
        cut: dict[str, Any] = {"truncation": True, "max_length": self._limit}
        ids = [self._tokenizer(text, **cut)["input_ids"] for text in filled]
        return [
            normalise(vector.reshape(1, -1), self.spec, self._server.url)
            for vector in self._server.embed(ids)
        ]


class ServedReranker:
    """A `Reranker` of texts on a server at `http://host:port`.

    The scores of cross-encoders are probabilities, which give the same ranking as the logits of a
    model in the process; those of `yes` against `no` are logits.

    Raises:
        UserError: The model reads images, or its tokenizer is missing here.
        InfrastructureError: The server does not respond.
    """

    def __init__(self, spec: RerankerSpec, endpoint: str, *, named: str = "rerank") -> None:
        from transformers import AutoTokenizer

        if spec.content is not PageContent.TEXT:
            raise UserError(f"{named}.endpoint: {spec.model} reads images: set endpoint=null")
        folder = model_folder(spec.model, spec.revision, named=f"{named}.model")
        tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self.spec = spec
        self._server = PoolingServer(endpoint, named=f"{named}.endpoint")
        # needed since vLLM 0.24 would otherwise also skip the activation inside a BERT's head
        self._activation = spec.family is RerankerFamily.CROSS_ENCODER
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
            UserError: The server refuses a pair.
            InfrastructureError: The server does not respond.
        """
        texts, owners = self._pairs.split(pairs)
        found: list[float] = []
        for start in range(0, len(texts), BATCH):
            queries, pages = zip(*texts[start : start + BATCH], strict=True)
            found += self._server.scores(queries, pages, activation=self._activation).tolist()
        return best_scores(found, owners)
