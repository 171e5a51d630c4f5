"""A retriever that asks a search server (`docagent.retriever.backend: http`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from pydantic import ValidationError

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents import DocumentStore, PageContent, PageRef
from docagent_rl.endpoints.api_keys import read_api_key
from docagent_rl.endpoints.http_client import check_url
from docagent_rl.retrieval.base import Hit, QueryRefusedError, Question, ServiceFailedError, check_queries
from docagent_rl.retrieval.config import RetrieverConfig, ServerApi
from docagent_rl.retrieval.service import wire
from docagent_rl.retrieval.service.alden import AldenDialect
from docagent_rl.retrieval.service.connection import Connections, Place
from docagent_rl.retrieval.service.host import HARMLESS
from docagent_rl.retrieval.service.remote import RemoteRetriever, ask_blaming
from docagent_rl.retrieval.service.vrag_rl import VragDialect, VragFaissDialect
from docagent_rl.retrieval.service.wire import Call, Dialect, NativeDialect

_LARGEST_INFO = 1 << 20
_DIALECTS: dict[ServerApi, Dialect] = {
    ServerApi.NATIVE: NativeDialect(),
    ServerApi.VRAG_RL: VragDialect(),
    ServerApi.VRAG_RL_FAISS: VragFaissDialect(),
    ServerApi.ALDEN: AldenDialect(),
}


class HttpRetriever(RemoteRetriever):
    """Asks a server, once a call; whoever calls tries again.

    A query that the server refuses, or fails at while it answers another, raises `QueryRefusedError` (see
    `remote.ask_blaming`).

    Args:
        config: of the retriever.
        store: the documents; hits on pages that it does not have are errors.
        key: of the section, for messages.

    Raises:
        UserError: the token's variable is not set, or the address is none.
    """

    def __init__(self, config: RetrieverConfig, store: DocumentStore, key: str) -> None:
        service = config.service
        url = check_url(service.url, f"{key}.service.url")
        token = read_api_key(service.token_env, f"{key}.service.token_env")
        place = Place(url, key, token, service.timeout_s, service.connections)
        self._api, self._store, self._place = service.api, store, place
        self._dialect, self._connections = _DIALECTS[service.api], Connections(place)
        self._num_pages = {doc_id: store.document(doc_id).num_pages for doc_id in store.doc_ids()}

    async def asearch(
        self,
        queries: Sequence[str],
        *,
        doc_id: str | None = None,
        top_k: int,
        exclude: Collection[PageRef] = (),
    ) -> list[list[Hit]]:
        """See `AsyncRetriever.asearch`.

        Raises:
            UserError: the store has no such document.
            QueryRefusedError: a query is at fault.
            InfrastructureError: the server is set up otherwise than the configuration says.
        """
        check_queries(queries, top_k)
        if doc_id is not None and doc_id not in self._num_pages:
            self._store.document(doc_id)  # says what there is
        meant = [query for query in queries if query.strip()]
        if not meant:
            return [[] for _ in queries]
        asked = Question(tuple(meant), doc_id, int(top_k), frozenset(exclude))
        key, shown = self._place.key, self._place.shown
        answers = await ask_blaming(
            lambda each: self._once(replace(asked, queries=tuple(each))),
            meant,
            refuses_all=f"{key}.service: {shown} refuses any query: see {key}.service.api",
        )
        found = iter(answers)
        return [next(found) if query.strip() else [] for query in queries]

    async def check(self) -> None:
        """See that the server is there, lets us in, answers, and has an index of these documents.

        The connections of the running event loop are closed then.

        Raises:
            InfrastructureError: it is not there, or fails.
            UserError: it is another one than the configuration says.
        """
        try:
            if self._api is ServerApi.NATIVE:
                self._compare(await self._info())
            if self._num_pages:
                first = None if self._api is not ServerApi.ALDEN else min(self._num_pages)
                await self._once(Question((HARMLESS,), first, 1))
        except ServiceFailedError as error:
            raise InfrastructureError(
                f"{self._place.key}.service.url={self._place.shown}: {error}: start the server, or correct "
                "the address"
            ) from None
        except (InfrastructureError, QueryRefusedError) as error:
            raise UserError(f"{self._place.key}.service.url={self._place.shown}: {error}") from None
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._connections.aclose()

    async def _once(self, asked: Question) -> list[list[Hit]]:
        dialect = self._dialect
        body = await self._connections.ask(dialect.call(asked), largest=dialect.largest_reply)
        try:
            answer = dialect.read(body, asked)
            return wire.select_hits(answer, asked, native=dialect.native, num_pages=self._num_pages)
        except (ValueError, UserError) as error:
            raise ServiceFailedError(f"an answer that cannot be used: {error}") from None

    async def _info(self) -> wire.Info:
        body = await self._connections.ask(Call("GET", wire.INFO), largest=_LARGEST_INFO)
        try:
            return wire.Info.model_validate_json(body)
        except ValidationError as error:
            raise UserError(
                f"{self._place.key}.service: {self._place.shown} is no server of `docagent-rl index serve` "
                f"({wire.first_problem(error)}): see {self._place.key}.service.api"
            ) from None

    def _compare(self, info: wire.Info) -> None:
        key, shown = self._place.key, self._place.shown
        if info.version != wire.VERSION:
            raise UserError(f"{key}.service: {shown} speaks version {info.version}, this one {wire.VERSION}")
        for name, theirs in info.fingerprints.items():
            if name in list(PageContent) and self._store.fingerprint(PageContent(name)) != theirs:
                raise UserError(
                    f"{key}.service: {shown} serves {info.pages} pages of {info.documents} documents whose "
                    f"{name}s are not those of {self._store.path}: serve an index of this store"
                )
