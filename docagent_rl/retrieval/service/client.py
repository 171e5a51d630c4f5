"""A retriever that uses a search server (`docagent.retriever.backend: http`)."""

import asyncio
import weakref
from collections.abc import AsyncGenerator
from typing import Any

from pydantic import ValidationError

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.base.text import visible
from docagent_rl.documents.store import DocumentStore, PageContent
from docagent_rl.endpoints.http_client import (
    NO_KEY,
    PLAIN,
    BodyError,
    bounded,
    check_url,
    public_url,
    read_api_key,
    redacted,
)
from docagent_rl.endpoints.retrying import describe_error, retry_after_s
from docagent_rl.retrieval.base import (
    Hit,
    NotTakenError,
    QueryRefusedError,
    SearchArguments,
    ServerFaultError,
    ServiceFailedError,
)
from docagent_rl.retrieval.config import RetrieverConfig
from docagent_rl.retrieval.service import wire
from docagent_rl.retrieval.service.host import HARMLESS, RemoteRetriever

CONNECT_S = 5.0
_REFUSED = frozenset({400, 413, 414, 422, 431})
_BUSY = frozenset({429, 503})
_PASSING = frozenset({408, 409, 425})
_LONGEST_WAIT_S = 8.0
_LONGEST = 200


class HttpRetriever(RemoteRetriever):
    """A client of a search server that makes one request per call.

    Every event loop has its own connections, which are closed when it ends. Hits on pages that the
    store does not have are errors.

    Raises:
        UserError: The token's variable is not set, or the address is wrong.
    """

    def __init__(self, config: RetrieverConfig, store: DocumentStore, key: str) -> None:
        self._service = config.service
        self._key = key
        self._url = check_url(config.service.url, f"{key}.service.url")
        self._shown = public_url(self._url)
        refuses_all = f"{key}.service: {self._shown} refuses any query: see {key}.service.url"
        super().__init__(store, refuses_all)
        self._token = read_api_key(config.service.token_env, f"{key}.service.token_env")
        self._num_pages = {doc_id: store.document(doc_id).num_pages for doc_id in store.doc_ids()}
        self._opened: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Connections] = (
            weakref.WeakKeyDictionary()
        )

    async def check(self) -> None:
        """Check that the server responds, accepts the token, and has an index of these documents.

        The connections of the running event loop are closed afterwards.

        Raises:
            InfrastructureError: The server cannot be reached or fails.
            UserError: The server is not the one that the configuration requires.
        """
        try:
            await self._compare_documents()
            await self._ask(SearchArguments((HARMLESS,)))
        except ServiceFailedError as error:
            raise InfrastructureError(
                f"{self._key}.service.url={self._shown}: {error}: start the server, or correct the "
                "address"
            ) from None
        except (InfrastructureError, QueryRefusedError) as error:
            raise UserError(f"{self._key}.service.url={self._shown}: {error}") from None
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        connections = self._opened.pop(asyncio.get_running_loop(), None)
        if connections is not None:
            await connections.aclose()

    async def _ask(self, asked: SearchArguments) -> list[list[Hit]]:
        body = await self._request("POST", wire.SEARCH, wire.request_body(asked))
        try:
            answer = wire.read_hits(body)
            wire.check_hits(answer, asked, self._num_pages)
        except (ValueError, UserError) as error:
            raise ServiceFailedError(f"the response cannot be used: {error}") from None
        return answer

    async def _compare_documents(self) -> None:
        body = await self._request("GET", wire.INFO)
        key = self._key
        shown = self._shown
        try:
            info = wire.Info.model_validate_json(body)
        except ValidationError as error:
            raise UserError(
                f"{key}.service: {shown} is not a server of `docagent-rl index serve` "
                f"({wire.first_problem(error)})"
            ) from None
        for name, theirs in info.fingerprints.items():
            if name in list(PageContent) and self._store.fingerprint(PageContent(name)) != theirs:
                raise UserError(
                    f"{key}.service: {shown} serves {info.pages} pages of {info.documents} "
                    f"documents whose {name}s differ from those of {self._store.path}: serve an "
                    "index of this store"
                )

    async def _request(self, method: str, path: str, content: bytes | None = None) -> bytes:
        """Send a request, and return the body of a successful response.

        Raises:
            NotTakenError: The server cannot be reached or is busy.
            ServiceFailedError: There was no response in time, the connection was lost, or the
                server failed.
            QueryRefusedError: The server refuses the query.
            InfrastructureError: The server denies access, or has no such path.
        """
        import aiohttp

        url = self._url + path
        try:
            http = await self._http()
            async with http.request(method, url, data=content, allow_redirects=False) as reply:
                status = reply.status
                asked = retry_after_s(reply.headers)
                pieces = bounded(reply.headers, reply.content.iter_any())
                body = b"".join([piece async for piece in pieces])
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise NotTakenError(self._line(f"no connection: {describe_error(error)}")) from None
        except TimeoutError:
            raise ServiceFailedError(f"no response within {self._service.timeout_s:g} s") from None
        except BodyError as error:
            raise ServiceFailedError(str(error)) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ServiceFailedError(
                self._line(f"the connection was lost: {describe_error(error)}")
            ) from None
        if status != 200:
            text = self._line(" ".join(body[:_LONGEST].decode("utf-8", "replace").split()))
            raise self._failure(status, asked, f"HTTP {status}: {text}")
        return body

    def _failure(self, status: int, asked: float | None, message: str) -> Exception:
        key = self._key
        shown = self._shown
        if status in _BUSY:
            # even if the server asks for minutes, it may be back in seconds, and a search only has
            # seconds
            return NotTakenError(message, min(asked, _LONGEST_WAIT_S) if asked else None)
        if status in _REFUSED:
            return QueryRefusedError(message)
        if status in (401, 403):
            return InfrastructureError(
                f"{key}.service: {shown} denies access ({message}): {key}.service.token_env names "
                "the variable with the token, which has to be set on every node"
            )
        if status == 500:
            return ServerFaultError(message)
        if status >= 500 or status in _PASSING:
            return ServiceFailedError(message)
        return InfrastructureError(
            f"{key}.service: {shown} has no such path or document ({message}): check "
            f"{key}.service.url, and whether it serves the same store"
        )

    async def _http(self) -> Any:
        import aiohttp

        loop = asyncio.get_running_loop()
        connections = self._opened.get(loop)
        if connections is None or connections.http.closed:
            headers = {"Content-Type": "application/json", **PLAIN}
            if self._token != NO_KEY:
                headers["Authorization"] = f"Bearer {self._token}"
            http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._service.connections),
                timeout=aiohttp.ClientTimeout(
                    total=self._service.timeout_s, sock_connect=CONNECT_S
                ),
                headers=headers,
                auto_decompress=False,
            )
            connections = self._opened[loop] = _Connections(http)
            await connections.begin()
        return connections.http

    def _line(self, text: str) -> str:
        return visible(redacted(text, self._token))


class _Connections:
    """Connections that are closed when their event loop ends.

    At its end, `asyncio.run` closes the asynchronous generators that were started in the loop, so
    this class starts a generator that closes the connections.
    """

    def __init__(self, http: Any) -> None:
        self.http = http
        self._waiting = self._wait()

    async def begin(self) -> None:
        """Register the connections to be closed with the running event loop."""
        await anext(self._waiting)

    async def aclose(self) -> None:
        """Close them now."""
        await self._waiting.aclose()

    async def _wait(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await self.http.close()
