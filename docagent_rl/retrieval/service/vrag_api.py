"""The search APIs of VRAG-RL's and UniDoc-RL's released servers.

Sources: VRAG-RL, `search_engine_api.py` (`GET /search?queries=a&queries=b`, at most ten pages a query) and
`search_engine_faiss_api.py` (`POST /search`). Both name a page by its image, `<document>_<page>.jpg`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from docagent_rl.documents import PageRef
from docagent_rl.endpoints.guard import RefusalError
from docagent_rl.retrieval.service.wire import HIGHEST_TOP_K, LONGEST_ID, LONGEST_QUERY, MOST_QUERIES, Query

if TYPE_CHECKING:
    from fastapi import FastAPI

    from docagent_rl.retrieval.service.app import Served

IMAGE_FOLDER = "./search_engine/corpus/img"
"""Where the released server has its images."""
PAGES_A_QUERY = 10
_NUMBER = re.compile(r"[0-9]{1,9}")


def image_name(ref: PageRef) -> str:
    """The name of a page's image."""
    return f"{ref.doc_id}_{ref.page}.jpg"


def page_of(image_file: str) -> PageRef:
    """The page whose image has this name, in any folder: split at the last underscore.

    Raises:
        ValueError: it is no such name.
    """
    name = image_file.replace("\\", "/").rpartition("/")[2]
    doc_id, _, number = name.rpartition(".")[0].rpartition("_")
    if not doc_id or len(doc_id) > LONGEST_ID or not _NUMBER.fullmatch(number) or int(number) < 1:
        raise ValueError(f"{name[:80]!r} is no name of a page's image: expected <document>_<page>.jpg")
    return PageRef(doc_id, int(number))


class _Asked(BaseModel):
    # as lenient as the released server, which ignores what it does not know
    model_config = ConfigDict(extra="ignore")
    queries: Annotated[list[Query], Field(max_length=MOST_QUERIES)] | Query
    top_k: int = Field(3, ge=1, le=HIGHEST_TOP_K)
    search_corpus: Any = None


def add_get(app: FastAPI, served: Served) -> None:
    """`GET /search`: for each query its pages, best first; `idx` counts them from 0."""
    from fastapi import Request

    async def search(request: Request) -> Any:
        queries = request.query_params.getlist("queries")
        if not queries:
            raise RefusalError(422, "queries: missing; ask as /search?queries=...&queries=...")
        if len(queries) > MOST_QUERIES or max(map(len, queries)) > LONGEST_QUERY:
            raise RefusalError(
                413, f"queries: at most {MOST_QUERIES}, of at most {LONGEST_QUERY} characters each"
            )
        found = await served.search(queries, top_k=PAGES_A_QUERY)
        return [
            [
                {"idx": rank, "image_file": f"{served.image_folder}/{image_name(hit.ref)}"}
                for rank, hit in enumerate(hits)
            ]
            for hits in found
        ]

    search.__annotations__ = {"request": Request}
    app.add_api_route("/search", search, methods=["GET"], response_model=None)


def add_post(app: FastAPI, served: Served) -> None:
    """`POST /search`: `queries` (one or several), `top_k`; scores, rows and image files of each."""
    from fastapi import Request

    from docagent_rl.retrieval.service.app import read

    async def search(request: Request) -> Any:
        asked = read(_Asked, await request.body())
        queries = [asked.queries] if isinstance(asked.queries, str) else asked.queries
        found = await served.search(queries, top_k=asked.top_k)
        return {
            "results": [
                {
                    "score": [float(hit.score) for hit in hits],
                    "indice": list(range(len(hits))),
                    "data": [{"image_file": f"{served.image_folder}/{image_name(hit.ref)}"} for hit in hits],
                }
                for hits in found
            ]
        }

    search.__annotations__ = {"request": Request}
    app.add_api_route("/search", search, methods=["POST"], response_model=None)
