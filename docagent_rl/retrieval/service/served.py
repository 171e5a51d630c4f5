"""What the APIs of a search server answer from."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents import DocumentStore
from docagent_rl.documents.store import PageContent
from docagent_rl.endpoints.guard import RefusalError
from docagent_rl.retrieval.base import (
    Hit,
    NotTakenError,
    QueryRefusedError,
    Question,
    Retriever,
    ServiceFailedError,
)
from docagent_rl.retrieval.service.host import SearchHost
from docagent_rl.retrieval.service.wire import VERSION, Info, one_line

T = TypeVar("T")
IMAGE_FOLDER = "./search_engine/corpus/img"
"""Where VRAG-RL's released server has its images."""


@dataclass(frozen=True, slots=True)
class Served:
    """The retrievers and documents of a server.

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
    image_folder: str = IMAGE_FOLDER

    async def search(self, question: Question, *, texts: bool = False) -> list[list[Hit]]:
        """Search as `Retriever.search`; whatever goes wrong is an answer of HTTP.

        Raises:
            RefusalError: says which.
        """
        host = self.texts if texts and self.texts is not None else self.host
        return await _answered(host, host.search(question))

    async def check_health(self) -> None:
        """See that searches come to an end.

        Raises:
            RefusalError: they do not, or fail.
        """
        for host in filter(None, (self.host, self.texts)):
            await _answered(host, host.probe())

    def close(self) -> None:
        """Take nothing more."""
        for host in filter(None, (self.host, self.texts)):
            host.close()


def describe_index(
    retriever: Retriever, store: DocumentStore, *, kind: str = "", max_waiting: int = 0
) -> Info:
    """Return what clients compare with what they have.

    Args:
        retriever: one that ranks by texts or images alone says so in `contents` (`PageContent`); without it
            both count.
        store: whose pages it finds.
        kind: of the retriever.
        max_waiting: of its host.
    """
    doc_ids = store.doc_ids()
    return Info(
        version=VERSION,
        kind=kind,
        documents=len(doc_ids),
        pages=sum(store.document(doc_id).num_pages for doc_id in doc_ids),
        fingerprints={
            content.value: store.fingerprint(content)
            for content in getattr(retriever, "contents", PageContent)
        },
        max_waiting=max_waiting,
    )


async def _answered(host: SearchHost, search: Awaitable[T]) -> T:
    try:
        return await search
    except NotTakenError as error:
        later = error.retry_after_s
        headers = {} if later is None else {"Retry-After": f"{later:g}"}
        raise RefusalError(503, one_line(error), headers) from None
    except TimeoutError:
        raise RefusalError(504, f"no result within {host.deadline_s:g} s") from None
    except QueryRefusedError as error:
        raise RefusalError(422, one_line(error)) from None
    except UserError as error:
        raise RefusalError(404, one_line(error)) from None
    except (InfrastructureError, ServiceFailedError) as error:
        raise RefusalError(502, one_line(error)) from None
