"""The actor that searches a part of the corpus, on some node of the run's Ray."""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.documents import DocumentStore
from docagent_rl.retrieval.base import (
    Divisible,
    Hit,
    NotTakenError,
    QueryRefusedError,
    Question,
    Retriever,
    ServerFaultError,
)
from docagent_rl.retrieval.config import RetrieverConfig
from docagent_rl.retrieval.service.host import HARMLESS, SearchHost

logger = logging.getLogger(__name__)

ActorOpener = Callable[[RetrieverConfig, DocumentStore, str], Retriever]
"""Opens the retriever of a configuration, whose key is the third argument, in the process of the actor."""
MODULES_VARIABLE = "DOCAGENT_MODULES"
"""Modules of the user's own, which may register kinds of retrievers; the trainer sets it."""


class SearchActor:
    """Opens a retriever, or one part of it, and answers for it.

    It is made once a first search has come to an end, for which a retriever may load what it needs.

    Args:
        opener: opens the retriever of a configuration in this process.
        settings: of the retriever, as `RetrieverConfig` in JSON mode.
        store: folder of the documents.
        key: of the section, for messages.
        shard: the part of the corpus, from 0.
    """

    def __init__(
        self, opener: ActorOpener, settings: Mapping[str, Any], store: str, key: str, shard: int
    ) -> None:
        for name in filter(None, os.environ.get(MODULES_VARIABLE, "").split(",")):
            importlib.import_module(name)
        config = RetrieverConfig.model_validate(dict(settings))
        retriever = opener(config, DocumentStore(Path(store)), key)
        if config.service.shards > 1 and isinstance(retriever, Divisible):
            retriever = retriever.part(shard, config.service.shards)
        with suppress(Exception):  # whatever a retriever raises: those who ask are told
            retriever.search([HARMLESS], top_k=1)
        service = config.service
        self._host = SearchHost(
            retriever,
            threads=service.threads,
            max_waiting=service.max_waiting,
            deadline_s=service.timeout_s,
        )

    async def search(self, question: Question) -> list[list[Hit]] | Exception:
        """Search as `Retriever.search`.

        Returns:
            The hits of each query, or what the client is to raise: exceptions of tasks would bring their
            tracebacks. `TimeoutError`: it did not come to an end in time.
        """
        try:
            return await self._host.search(question)
        except (NotTakenError, TimeoutError) as error:
            return error
        except QueryRefusedError as error:
            return QueryRefusedError(str(error))
        except UserError as error:
            return UserError(str(error))
        except Exception as error:  # whatever a retriever raises, and whatever it holds
            return ServerFaultError(f"{type(error).__name__}: {error}"[:300])

    async def health(self) -> dict[str, Any]:
        """Return the process's id and the number of queries that wait.

        A process in which searches hang ends itself, and Ray starts another one.
        """
        try:
            await self._host.probe()
        except TimeoutError:
            logger.error("no search ended within %g s: this process makes room", self._host.deadline_s)
            os._exit(1)  # threads that hang let it end in no other way
        except Exception as error:  # whatever a retriever raises
            logger.debug("a harmless search failed: %s", error)
        return {"pid": os.getpid(), "waiting": self._host.waiting}
