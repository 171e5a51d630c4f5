"""The actors of a retriever: named, made once a run, made anew where they are gone."""

from __future__ import annotations

import hashlib
import itertools
import threading
import time
from typing import Any

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents import DocumentStore
from docagent_rl.retrieval.config import RetrieverConfig
from docagent_rl.retrieval.service.ray_actor import SearchActor

REST_S = 2.0
"""Seconds in which an actor that failed is asked only where no other is left."""
_MOST_AT_A_TIME = 10_000
"""Calls that an actor takes in, so that it is the actor that says it is busy, not Ray's queue that grows."""
_LONGEST = 300
_AGAIN_S = 0.5


class Replicas:
    """Handles to all actors of a retriever.

    The first who asks for an actor makes it, in the namespace of the run; the name holds the run's job and
    everything that the actor depends on. Ray starts a killed one again, on another node if need be.

    Args:
        config: of the retriever.
        store: the documents.
        key: of the section, for messages.

    Raises:
        InfrastructureError: Ray does not run, or an actor does not start in time.
        UserError: an actor cannot open the index.
    """

    def __init__(self, config: RetrieverConfig, store: DocumentStore, key: str) -> None:
        import ray

        if not ray.is_initialized():
            raise InfrastructureError(f"{key}.backend=ray: this process belongs to no Ray cluster")
        self._config, self._store, self._key = config, store, key
        job = ray.get_runtime_context().get_job_id()
        told = f"{job} {key} {config.model_dump_json()} {store.path}"
        self._name = f"docagent-{key.rpartition('.')[2]}-{hashlib.sha256(told.encode()).hexdigest()[:12]}"
        self._lock, self._turn = threading.Lock(), itertools.count()
        self._resting: dict[tuple[int, int], float] = {}
        service = config.service
        self._handles = {
            (shard, replica): self._made(shard, replica)
            for shard in range(service.shards)
            for replica in range(service.replicas)
        }
        self._wait()

    def in_turn(self, shard: int) -> list[tuple[tuple[int, int], Any]]:
        """The actors of a shard, the one whose turn it is first and those that failed lately last."""
        number, start = self._config.service.replicas, next(self._turn)
        places = [(shard, (start + offset) % number) for offset in range(number)]
        now = time.monotonic()
        places.sort(key=lambda place: self._resting.get(place, 0.0) > now)
        return [(place, self._handles[place]) for place in places]

    def failed(self, place: tuple[int, int]) -> None:
        """An actor did not answer."""
        self._resting[place] = time.monotonic() + REST_S

    def late(self, place: tuple[int, int], handle: Any) -> None:
        """An actor did not answer in time; it looks whether it hangs, and makes room if so."""
        self.failed(place)
        handle.health.remote()

    def renew(self, place: tuple[int, int], gone: Any) -> None:
        """Make an actor anew that is gone for good; blocks.

        Args:
            place: its shard and replica.
            gone: the handle that failed; somebody may have made another one since.
        """
        with self._lock:
            if self._handles[place] is gone:
                self._handles[place] = self._made(*place)

    def _made(self, shard: int, replica: int) -> Any:
        import ray

        service = self._config.service
        # Ray 2.60 lets an actor that books no GPU see all of them
        variables = {} if service.num_gpus else {"CUDA_VISIBLE_DEVICES": ""}
        variables |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        actor = ray.remote(SearchActor).options(
            name=f"{self._name}-{shard}-{replica}",
            get_if_exists=True,
            num_cpus=service.num_cpus,
            num_gpus=service.num_gpus,
            max_restarts=-1,
            max_task_retries=0,
            max_concurrency=_MOST_AT_A_TIME,
            scheduling_strategy="SPREAD",
            runtime_env={"env_vars": variables},
        )
        settings = self._config.model_dump(mode="json")
        return actor.remote(settings, str(self._store.path), self._key, shard)

    def _wait(self) -> None:
        """Until all have opened their index; one that Ray is about to start again is waited for."""
        from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayError

        start_s = self._config.service.start_s
        until = time.monotonic() + start_s
        for handle in self._handles.values():
            while True:
                try:
                    _health(handle, max(0.0, until - time.monotonic()))
                    break
                except ActorUnavailableError:
                    time.sleep(_AGAIN_S)
                except GetTimeoutError as error:
                    raise InfrastructureError(
                        f"{self._key}.backend=ray: its {len(self._handles)} actors have not opened the index "
                        f"within service.start_s={start_s:g} s"
                    ) from error
                except RayError as error:
                    raise self._unstarted(error) from None

    def _unstarted(self, error: Exception) -> Exception:
        cause = _cause(error)
        if isinstance(cause, UserError):
            return cause
        lines = str(cause).strip().splitlines() or [type(cause).__name__]
        return InfrastructureError(f"{self._key}.backend=ray: an actor cannot start: {lines[-1][:_LONGEST]}")


def _health(handle: Any, timeout_s: float) -> Any:
    import ray

    return ray.get(handle.health.remote(), timeout=timeout_s)


def _cause(error: BaseException) -> BaseException:
    """What an actor's constructor raised, as far as Ray tells."""
    while isinstance(inner := getattr(error, "cause", None), BaseException):
        error = inner
    text = str(error)
    marker = "docagent_rl.base.errors.UserError: "
    return UserError(text.rpartition(marker)[2].strip()) if marker in text else error
