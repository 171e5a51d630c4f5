"""vLLM's server of pooling models: token ids in, vectors out."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import httpx2
import numpy as np
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.endpoints.http_client import BodyError, check_url, client_of_run, public_url, read_body

LONGEST_BODY = 256 << 20
"""Bytes of an answer: 32 queries of 600 tokens with 128 numbers have 5 MiB."""
_TYPES = {"float16": np.dtype("<f2"), "float32": np.dtype("<f4")}
_LATER = frozenset({408, 425, 429, 500, 502, 503, 504})


class _ComeAgainError(Exception):
    """A failure that another try may mend."""


class VllmClient:
    """Asks `/v1/embeddings` for a vector a text, or `/pooling` for one a token.

    Args:
        url: `http://host:port`.
        attempts: tries a request.
        timeout_s: of each.

    Raises:
        UserError: the URL is none.
        InfrastructureError: nobody answers there, or no such server.
    """

    def __init__(self, url: str, *, attempts: int = 3, timeout_s: float = 30.0) -> None:
        url = check_url(url, "docagent.retriever.encoder.endpoint")
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
        said = body[:300].decode("utf-8", "replace")
        if response.status_code in _LATER:
            raise _ComeAgainError(f"{response.status_code}: {said}")
        if not response.is_success:  # a redirect is refused as well
            raise UserError(f"{self.url}{path} refuses ({response.status_code}): {said}")
        return response.headers.get("metadata"), body


def _read(item: dict[str, Any], body: bytes) -> np.ndarray:
    """Return the array that an item of the metadata describes."""
    dtype, shape = _TYPES[item["embed_dtype"]], tuple(int(size) for size in item["shape"])
    raw = np.frombuffer(body[int(item["start"]) : int(item["end"])], dtype)
    return raw.reshape(shape).astype(np.float32)
