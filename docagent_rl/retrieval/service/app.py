"""The search server's application: the native API, and those of released servers beside it."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.base.terminal import visible
from docagent_rl.documents import DocumentStore, PageRef
from docagent_rl.documents.store import PageContent
from docagent_rl.endpoints.guard import Guard, Policy, RefusalError
from docagent_rl.retrieval.base import Hit, QueryRefusedError, Retriever
from docagent_rl.retrieval.config import ServerApi
from docagent_rl.retrieval.failures import BusyError, ServiceFailedError
from docagent_rl.retrieval.service import alden_api, vrag_api, wire
from docagent_rl.retrieval.service.host import SearchHost
from docagent_rl.retrieval.service.wire import VERSION, Info, SearchRequest

if TYPE_CHECKING:
    from fastapi import FastAPI

logger = logging.getLogger(__name__)
T = TypeVar("T")
ModelT = TypeVar("ModelT", bound=BaseModel)
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class Served:
    """What an application answers from.

    Args:
        store: the documents.
        host: the retriever.
        info: what `GET /v1/info` says.
        texts: ranks page texts where ALDEN's API asks for them; None: as `host` does.
        image_folder: what stands before the names of page images in VRAG-RL's API.
    """

    store: DocumentStore
    host: SearchHost
    info: Info
    texts: SearchHost | None = None
    image_folder: str = vrag_api.IMAGE_FOLDER

    async def search(
        self,
        queries: Sequence[str],
        *,
        doc_id: str | None = None,
        top_k: int,
        exclude: Collection[PageRef] = (),
        texts: bool = False,
    ) -> list[list[Hit]]:
        """As `Retriever.search`; whatever goes wrong is an answer of HTTP.

        Raises:
            RefusalError: says which.
        """
        host = self.texts if texts and self.texts is not None else self.host
        return await _answered(host, host.search(queries, doc_id=doc_id, top_k=top_k, exclude=exclude))

    async def check_health(self) -> None:
        """See that searches come to an end.

        Raises:
            RefusalError: they do not, or fail.
        """
        for host in filter(None, (self.host, self.texts)):
            await _answered(host, host.probe())


def describe_index(
    retriever: Retriever, store: DocumentStore, *, kind: str = "", max_waiting: int = 0
) -> Info:
    """What clients compare with what they have.

    Args:
        retriever: one that ranks by texts or images alone says so in `contents` (`PageContent`); without it
            both count.
        store: whose pages it finds.
        kind: of the retriever.
        max_waiting: of its host.
    """
    contents = tuple(getattr(retriever, "contents", PageContent))
    doc_ids = store.doc_ids()
    return Info(
        version=VERSION,
        kind=kind,
        documents=len(doc_ids),
        pages=sum(store.document(doc_id).num_pages for doc_id in doc_ids),
        fingerprints={content.value: store.fingerprint(content) for content in contents},
        max_waiting=max_waiting,
    )


async def _answered(host: SearchHost, search: Awaitable[T]) -> T:
    """What a search finds; whatever goes wrong is an answer of HTTP."""
    try:
        return await search
    except BusyError as error:
        raise RefusalError(503, str(error), {"Retry-After": f"{error.retry_after_s:g}"}) from None
    except TimeoutError:
        raise RefusalError(504, f"no result within {host.deadline_s:g} s") from None
    except QueryRefusedError as error:
        raise RefusalError(422, _line(error)) from None
    except UserError as error:
        raise RefusalError(404, _line(error)) from None
    except (InfrastructureError, ServiceFailedError) as error:
        raise RefusalError(502, _line(error)) from None


def make_app(
    served: Served,
    *,
    apis: Collection[ServerApi] = (ServerApi.NATIVE,),
    token: str | None = None,
    names: Collection[str] = (),
) -> Guard:
    """An ASGI application.

    Args:
        served: what it answers from.
        apis: which it speaks.
        token: that clients have to send.
        names: under which it is asked without a token (`Policy.names`).
    """
    from fastapi import FastAPI

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        yield
        for host in (served.host, served.texts):
            if host is not None:
                host.close()

    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, lifespan=lifespan)
    _handle_errors(app)
    if ServerApi.NATIVE in apis:
        _native(app, served)
    if ServerApi.VRAG_RL in apis:
        vrag_api.add_get(app, served)
    if ServerApi.VRAG_RL_FAISS in apis:
        vrag_api.add_post(app, served)
    if ServerApi.ALDEN in apis:
        alden_api.add(app, served)
    open_paths = (wire.HEALTH, alden_api.HEALTH)
    return Guard(app, Policy(token, names, open_paths, largest_body=wire.LARGEST_BODY))


def read(model: type[ModelT], body: bytes) -> ModelT:
    """A request's body.

    Raises:
        RefusalError: it is something else.
    """
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise RefusalError(wire.status_of(error), wire.told(error)) from None


def _native(app: FastAPI, served: Served) -> None:
    from fastapi import Request, Response

    async def search(request: Request) -> Response:
        asked = read(SearchRequest, await request.body())
        found = await served.search(
            asked.queries, doc_id=asked.doc_id, top_k=asked.top_k, exclude=asked.pages()
        )
        return Response(wire.reply_body(found), media_type="application/json")

    async def health() -> dict[str, str]:
        await served.check_health()
        return {"status": "healthy"}

    async def info() -> dict[str, Any]:
        return served.info.model_dump()

    search.__annotations__ = {"request": Request, "return": Response}
    app.add_api_route(wire.SEARCH, search, methods=["POST"], response_model=None)
    app.add_api_route(wire.HEALTH, health, methods=["GET"], response_model=None)
    app.add_api_route(wire.INFO, info, methods=["GET"], response_model=None)


def _handle_errors(app: FastAPI) -> None:
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse
    from starlette.exceptions import HTTPException

    async def refused(_: Any, error: Any) -> JSONResponse:
        return JSONResponse({"error": error.message}, error.status, headers=error.headers)

    async def of_framework(_: Any, error: Any) -> JSONResponse:
        return JSONResponse({"error": _line(error.detail)}, error.status_code, headers=error.headers)

    async def arguments(_: Any, error: Any) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        return JSONResponse({"error": _line(f"{where}: {first['msg']}")}, 422)

    async def unforeseen(request: Any, error: Exception) -> JSONResponse:
        logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return JSONResponse({"error": f"internal error: {type(error).__name__}"}, 500)

    app.add_exception_handler(RefusalError, refused)
    app.add_exception_handler(HTTPException, of_framework)
    app.add_exception_handler(RequestValidationError, arguments)
    app.add_exception_handler(Exception, unforeseen)


def _line(error: object) -> str:
    return visible(" ".join(str(error).split()))[:_LONGEST]
