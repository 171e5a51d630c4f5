"""A client of vLLM servers that pool: vectors of texts and scores of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx2
import numpy as np
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.endpoints.http_client import check_url, public_url

_TIMEOUT_S = 30.0
_ATTEMPTS = 3
_LATER = frozenset({408, 425, 429, 500, 502, 503, 504})


class _ComeAgainError(Exception):
    """A failure that another try may mend."""


class PoolingServer:
    """A server of `vllm serve --runner pooling`, `http://host:port`.

    Args:
        url: its address.
        named: the key that holds it, for messages.

    Raises:
        UserError: the address is none.
        InfrastructureError: nobody answers there, or no such server.
    """

    def __init__(self, url: str, *, named: str) -> None:
        url = check_url(url, named)
        self.url = public_url(url)
        # a server of the run: no proxy of the environment stands between them
        self._client = httpx2.Client(base_url=url, timeout=_TIMEOUT_S, trust_env=False)
        found = self._items("GET", "/v1/models")
        try:
            self.model, self.longest = str(found[0]["id"]), int(found[0].get("max_model_len") or 0)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise InfrastructureError(f"{self.url}/v1/models is no list of vLLM's: {error!r}") from error

    def embed(self, inputs: Sequence[list[int]]) -> np.ndarray:
        """Return one vector a sequence of token ids, float32 of shape (n, d)."""
        content = {"input": list(inputs), "encoding_format": "float"}
        return self._numbers("/v1/embeddings", content, "embedding", len(inputs)).astype(np.float32)

    def scores(self, queries: Sequence[str], pages: Sequence[str], *, activation: bool) -> np.ndarray:
        """Return the score of each pair of query and page, shape (n,)."""
        content = {"queries": list(queries), "documents": list(pages), "use_activation": activation}
        return self._numbers("/score", content, "score", len(queries))

    def _numbers(self, path: str, content: dict[str, Any], key: str, count: int) -> np.ndarray:
        found = self._items("POST", path, {"model": self.model, **content})
        try:
            numbers = np.array([item[key] for item in sorted(found, key=lambda item: item["index"])], float)
        except (ValueError, KeyError, TypeError) as error:
            raise InfrastructureError(f"{self.url}{path} answers in another form: {error!r}") from error
        if len(numbers) != count or not np.isfinite(numbers).all():
            raise InfrastructureError(
                f"{self.url}{path} gave {len(numbers)} answers to {count} inputs, or some are not finite"
            )
        return numbers

    def _items(self, method: str, path: str, content: Any = None) -> list[Any]:
        """Return the `data` of an answer.

        Raises:
            UserError: the server refuses the request.
            InfrastructureError: it fails every time, or answers in another form.
        """
        tries = Retrying(
            retry=retry_if_exception_type(_ComeAgainError),
            stop=stop_after_attempt(_ATTEMPTS),
            wait=wait_exponential_jitter(0.2, max=5.0),
            reraise=True,
        )
        try:
            body = tries(self._ask_once, method, path, content)
        except _ComeAgainError as error:
            raise InfrastructureError(f"{self.url}{path} fails {_ATTEMPTS} times: {error}") from error
        if not isinstance(body, dict) or not isinstance(body.get("data"), list):
            raise InfrastructureError(f"{self.url}{path} answers in another form than vLLM")
        return body["data"]

    def _ask_once(self, method: str, path: str, content: Any) -> Any:
        try:
            response = self._client.request(method, path, json=content)
        except httpx2.HTTPError as error:
            raise _ComeAgainError(f"{type(error).__name__}: {error}") from error
        if response.status_code in _LATER:
            raise _ComeAgainError(f"{response.status_code}: {response.text[:300]}")
        if not response.is_success:  # a redirect is refused as well
            raise UserError(f"{self.url}{path} refuses ({response.status_code}): {response.text[:300]}")
        try:
            return response.json()
        except ValueError as error:
            raise InfrastructureError(f"{self.url}{path} answers in another form: {error}") from error
