"""A retriever that uses actors on the run's Ray cluster (`docagent.retriever.backend: ray`)."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents.store import DocumentStore
from docagent_rl.retrieval.base import (
    Hit,
    NotTakenError,
    QueryRefusedError,
    Retriever,
    SearchArguments,
    ServerFaultError,
    ServiceFailedError,
)
from docagent_rl.retrieval.config import RetrieverConfig
from docagent_rl.retrieval.encoders.devices import shared_gpu
from docagent_rl.retrieval.service.host import HARMLESS, RemoteRetriever, SearchHost
from docagent_rl.retrieval.service.wire import LONGEST_LINE

logger = logging.getLogger(__name__)

Opener = Callable[[RetrieverConfig, DocumentStore, str], Retriever]
"""A function that opens a configured retriever and checks that its index matches the store; the
last argument is the key of the section.
"""

_MOST_AT_A_TIME = 10_000
"""Number of concurrent calls of an actor: so many that the actor rejects calls when it is busy,
instead of Ray queueing them.
"""


class SearchActor:
    """An actor that opens a retriever and runs its searches.

    The constructor runs a first search, for which a retriever may load files. `number` is that of
    the actor among its replicas.
    """

    def __init__(
        self, config: RetrieverConfig, store: Path, key: str, opener: Opener, number: int = 0
    ) -> None:
        if config.service.shared_gpu_gib is not None:
            named = f"{key}.service.shared_gpu_gib"
            device = shared_gpu(number, config.service.shared_gpu_gib, named)
            config = on_device(config, device)
        retriever = opener(config, DocumentStore(store), key)
        with suppress(Exception):  # later searches will report the error
            retriever.search([HARMLESS], top_k=1)
        service = config.service
        self._host = SearchHost(
            retriever,
            threads=service.threads,
            max_waiting=service.max_waiting,
            deadline_s=service.timeout_s,
        )

    async def search(self, question: SearchArguments) -> list[list[Hit]] | Exception:
        """Search as `Retriever.search` does.

        Returns:
            The hits of each query, or the error for the client (a `TimeoutError` if the search did
            not end in time). Errors are returned, since Ray would add tracebacks to raised ones.
        """
        try:
            return await self._host.search(question)
        except (NotTakenError, TimeoutError) as error:
            return error
        except (QueryRefusedError, UserError, ServiceFailedError) as error:
            return type(error)(str(error))
        except Exception as error:  # retrievers may raise anything, with anything in it
            return ServerFaultError(f"{type(error).__name__}: {error}"[:300])

    async def health(self) -> dict[str, Any]:
        """Return the process's id and the number of waiting queries.

        A process whose searches hang exits, and Ray starts another one.
        """
        try:
            await self._host.probe()
        except TimeoutError:
            logger.error(
                "no search ended within %g s: this process exits to be replaced",
                self._host.deadline_s,
            )
            os._exit(1)  # threads that hang prevent any other exit
        except Exception as error:  # retrievers may raise anything
            logger.debug("a harmless search failed: %s", error)
        return {"pid": os.getpid(), "waiting": self._host.waiting}


def on_device(config: RetrieverConfig, device: str) -> RetrieverConfig:
    """Return the section with a device for its query encoders, and those of its parts, that have
    none.
    """
    encoder = config.encoder
    if encoder.device is None and encoder.endpoint is None:
        encoder = encoder.model_copy(update={"device": device})
    parts = {name: on_device(part, device) for name, part in config.parts.items()}
    return config.model_copy(update={"encoder": encoder, "parts": parts})


class RayRetriever(RemoteRetriever):
    """A client of search actors that makes one attempt per call.

    Replicas are used in turn; if one is gone or busy, the next one is used at once. Searches change
    nothing, so repeating them does no harm.

    The first process that needs an actor creates it in the namespace of the run; its name contains
    the run's job and a hash of everything on which the actor depends. Ray restarts a killed actor,
    on another node if necessary, as long as the process that created it lives and has its client:
    a run creates all before its agent workers need them (`start_search_actors`).

    `key` is the key of the section, for messages; `opener` opens the retriever of an actor.

    Raises:
        InfrastructureError: Ray does not run, or an actor does not start, or not in time.
    """

    def __init__(
        self, config: RetrieverConfig, store: DocumentStore, key: str, opener: Opener
    ) -> None:
        import ray

        if not ray.is_initialized():
            raise InfrastructureError(
                f"{key}.backend=ray: this process is not connected to a Ray cluster"
            )
        super().__init__(store, f"the actors of {key} refuse all queries")
        self._config = config
        self._service = config.service
        self._key = key
        self._opener = opener
        job = ray.get_runtime_context().get_job_id()
        identity = f"{job} {key} {config.model_dump_json()} {store.path}"
        digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
        self._name = f"docagent-{key.rpartition('.')[2]}-{digest}"
        self._turn = itertools.count()
        self._actors = [self._make(place) for place in range(config.service.replicas)]
        self._wait()

    async def _ask(self, asked: SearchArguments) -> list[list[Hit]]:
        """Return the hits from the first replica that accepts the search."""
        start = next(self._turn) % len(self._actors)
        last = None
        for actor in self._actors[start:] + self._actors[:start]:
            answer = await self._answer(actor, asked)
            if not isinstance(answer, Exception):
                return answer
            if not isinstance(answer, NotTakenError):
                raise answer
            last = answer
        raise NotTakenError(f"no actor of {self._key} accepts the search: {last}")

    async def _answer(self, actor: Any, question: SearchArguments) -> list[list[Hit]] | Exception:
        import ray
        from ray.exceptions import RayError

        timeout_s = self._service.timeout_s
        reference = None
        try:
            reference = actor.search.remote(question)
            async with asyncio.timeout(timeout_s):
                answer = await reference
        except RayError as error:
            return NotTakenError(f"the actor is gone: {type(error).__name__}")
        except TimeoutError as error:
            ray.cancel(reference)
            answer = error
        if isinstance(answer, TimeoutError):
            actor.health.remote()  # if the actor hangs, this makes it exit
            return ServiceFailedError(f"an actor did not respond within {timeout_s:g} s")
        return answer

    def _make(self, place: int) -> Any:
        import ray

        service = self._service
        # in Ray 2.60, an actor that reserves no GPU sees all of them
        on_gpu = service.num_gpus or service.shared_gpu_gib
        variables = {} if on_gpu else {"CUDA_VISIBLE_DEVICES": ""}
        variables |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        actor = ray.remote(SearchActor).options(
            name=f"{self._name}-{place}",
            get_if_exists=True,
            num_cpus=service.num_cpus,
            num_gpus=service.num_gpus,
            max_restarts=-1,
            max_task_retries=0,
            max_concurrency=_MOST_AT_A_TIME,
            scheduling_strategy="SPREAD",
            runtime_env={"env_vars": variables},
        )
        return actor.remote(self._config, self._store.path, self._key, self._opener, place)

    def _wait(self) -> None:
        """Wait until all actors have opened their index, even if Ray has to restart one."""
        import ray
        from ray.exceptions import GetTimeoutError, RayError

        start_s = self._service.start_s
        asked = [actor.health.options(max_task_retries=-1).remote() for actor in self._actors]
        try:
            ray.get(asked, timeout=start_s)
        except GetTimeoutError as error:
            raise InfrastructureError(
                f"{self._key}.backend=ray: its {len(asked)} actors have not opened the index "
                f"within service.start_s={start_s:g} s"
            ) from error
        except RayError as error:
            # the last line of Ray's message is that of the constructor's error
            last = (str(error).strip().splitlines() or [type(error).__name__])[-1][:LONGEST_LINE]
            raise InfrastructureError(
                f"{self._key}.backend=ray: an actor cannot start: {last}"
            ) from None
