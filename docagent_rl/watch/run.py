"""The watchdog of a run: a thread in the driver that a Hydra callback starts and stops."""

import inspect
import logging
import os
import threading
import time
import traceback
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import ray
from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from omegaconf import DictConfig
from ray._private import worker as ray_worker
from ray.exceptions import ActorDiedError, ActorUnavailableError, NodeDiedError, RayError

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import clean, tell, traceback_text
from docagent_rl.config import DocAgentConfig, WatchConfig, plain_section
from docagent_rl.console.channel import ReportReceiver
from docagent_rl.console.failing import reason
from docagent_rl.console.overview import next_commands
from docagent_rl.console.run_console import run_console
from docagent_rl.watch.actors import (
    AGAIN,
    NODE_S,
    Queue,
    death_messages,
    free_resources,
    kill_own_actors,
    read_actors,
    waiting_groups,
)
from docagent_rl.watch.engines import Engines
from docagent_rl.watch.processes import RUN_VARIABLE, Descendants
from docagent_rl.watch.replaced import read_replaced
from docagent_rl.watch.stopping import REQUEUE, StopSignal

logger = logging.getLogger(__name__)

GRACE_S = 10.0
"""Seconds that a run gets to end by itself and close its loggers after a part of it died."""
_LAST_S = 15.0
_FINAL_LOOK_S = 3.0
_AGAIN_S = 1.0
_TICK_S = 0.5
"""Seconds between two checks for a signal."""
_LONGEST = 300
SILENT_S = 30.0
"""Ray itself ends a driver about a minute after its control service (GCS) has died."""
TRACEBACK_FILE = "failure_traceback.txt"
_BUSY = (
    "the machine may be overloaded, or short of memory, processes or space in /tmp (Ray's logs are "
    "in /tmp/ray/session_latest/logs). Run `ray stop` to end what an earlier start left behind, "
    "then run the same command again"
)
_RAY_INIT = inspect.unwrap(ray.init).__code__


class Watch:
    """A watchdog for the run that the main thread of this process waits for."""

    def __init__(self, config: WatchConfig, checkpoints: Path) -> None:
        self._interval = config.interval_s
        self.stop_signal = StopSignal(config.stop_s, checkpoints)
        self._engines = Engines(config.engine_timeout_s)
        self._queue = Queue(config.pending_s)
        self._family = Descendants()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="docagent-watch", daemon=True)
        self._asking_since: float | None = None
        """The time at which the pending query to Ray was sent; `None` if none is pending."""
        self.trouble: str | None = None

    def start(self) -> None:
        """Start watching; call it in the main thread. Ray may start later."""
        self.stop_signal.listen()
        self._thread.start()
        threading.Thread(
            target=self._listen_for_silence, name="docagent-silence", daemon=True
        ).start()

    def stop(self) -> None:
        """Stop watching, because the run has ended."""
        self._ended.set()
        self._thread.join(timeout=_LAST_S)

    def look_once_more(self, patience_s: float = 0.0) -> str | None:
        """Return what made a run fail, if a part of it died; verl may fail before the next check.

        The check is repeated every second for `patience_s` seconds.
        """
        until = time.monotonic() + patience_s
        while self.trouble is None and ray.is_initialized():
            self.trouble = self._look(wait_s=_FINAL_LOOK_S)
            if self.trouble or time.monotonic() >= until:
                break
            time.sleep(_AGAIN_S)
        return self.trouble

    def end_processes(self) -> None:
        """Shut Ray down if this run started it, and end every process that the run has started."""
        self._family.look()
        ray.shutdown()
        self._family.end()

    def _watch(self) -> None:
        next_look = time.monotonic() + self._interval
        while not self._ended.wait(min(self._interval, _TICK_S)):
            if overdue := self._overdue():
                self._end_now(overdue, REQUEUE)
            if time.monotonic() < next_look or not ray.is_initialized():
                continue
            next_look = time.monotonic() + self._interval
            self._family.look()
            self.trouble = self._look()
            if self.trouble:
                self._end_run(self.trouble)
                return

    def _listen_for_silence(self) -> None:
        """Report that Ray does not respond: a query to a service that is gone never returns."""
        while not self._ended.wait(_TICK_S):
            since = self._asking_since
            if since is not None and time.monotonic() - since >= SILENT_S:
                tell(
                    f"Ray's control service (GCS) has not responded for {SILENT_S:.0f} s. If it "
                    "has died, Ray ends this process in about a minute, with a message of its own. "
                    f"{AGAIN}"
                )
                return

    @contextmanager
    def _asking(self) -> Generator[None]:
        self._asking_since = time.monotonic()
        try:
            yield
        finally:
            self._asking_since = None

    def _overdue(self) -> str | None:
        try:
            with self._asking():
                return self.stop_signal.look()
        except RayError as error:  # the key-value store is not reachable right now
            logger.debug("the stop request could not be passed on: %s", error)
            return None

    def _look(self, wait_s: float = 0.0) -> str | None:
        try:
            with self._asking():
                # in this order: a part that dies in between was covered before it died
                actors = read_actors()
                excused = read_replaced().excused(at_the_end=wait_s > 0)
                unexpected = [actor for actor in actors if actor.id not in excused]
                return (
                    death_messages(unexpected)
                    or self._engines.look(actors, wait_s, excused)
                    or self._queue.overdue(actors, waiting_groups(), free_resources())
                )
        except (RayError, ValueError, RuntimeError) as error:
            # Ray is starting or shutting down, or an actor ended between two queries
            logger.debug("the watchdog could not query Ray: %s", error)
            return None

    def _end_run(self, trouble: str) -> None:
        """Give the run time to end; then kill its actors, which the main thread waits for; then
        exit.
        """
        if self._ended.wait(GRACE_S):
            return
        kill_own_actors()
        if self._ended.wait(_LAST_S):
            return
        self._end_now(trouble, 1)

    def _end_now(self, message: str, status: int) -> NoReturn:
        self._family.look()
        self._family.end()
        if (console := run_console()) is not None:
            console.show_tail()
        tell(clean(message))
        os._exit(status)


class RunWatch(Callback):
    """Hydra callback of every recipe that ends a run with one message and status 1 if a part
    died.
    """

    def __init__(self) -> None:
        self._watch: Watch | None = None
        self._reports: ReportReceiver | None = None

    def on_job_start(self, config: DictConfig, **_: Any) -> None:
        """Start watching; the checks have passed."""
        section = DocAgentConfig.parse(plain_section(config.docagent))
        self._watch = Watch(section.watch, Path(str(config.trainer.default_local_dir)).absolute())
        self._watch.start()
        if (console := run_console()) is not None:
            ray_worker._post_init_hooks.append(partial(console.begin, "trainer"))
            self._reports = ReportReceiver(os.environ[RUN_VARIABLE], console.handle)
            self._reports.begin()

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **_: Any) -> None:
        """Report the death that caused an error in place of the error.

        Raises:
            SystemExit: a part of the run died, the trainer found that its settings cannot work, or
                the run was asked to stop (status 75).
        """
        if self._watch is None:
            return
        self._watch.stop()
        if self._reports is not None:
            self._reports.end()
        console = run_console()
        if job_return.status is not JobStatus.FAILED:
            # the traceback of an earlier start, which this one has resumed
            (Path(config.docagent.run_dir) / TRACEBACK_FILE).unlink(missing_ok=True)
            stopped_on_request = self._watch.stop_signal.confirmed()
            # a vLLM worker can hang in its shutdown, and keep all its memory
            self._watch.end_processes()
            if stopped_on_request:
                tell(f"ended on SIGTERM: {self._watch.stop_signal.prospect()}")
                raise SystemExit(REQUEUE)
            if console is not None:
                console.finish(next_commands(config, Path(config.docagent.run_dir)))
            return
        error = job_return._return_value
        if isinstance(error, UserError):  # raised by the trainer; it needs no traceback
            _end(self._watch, str(getattr(error, "cause", error)), job_return, config, 1)
        if isinstance(error, Exception) and _is_of_rays_start(error):
            _end(self._watch, _no_ray(error), job_return, config, 1)
        # Ray lost an actor after its constructor had succeeded
        lost = isinstance(error, ActorDiedError) and not error.actor_init_failed
        unreachable = lost or isinstance(error, ActorUnavailableError | NodeDiedError)
        trouble = self._watch.look_once_more(NODE_S if unreachable else 0.0)
        if trouble is None and unreachable:
            # drop the ids and the traceback that the error of a task contains
            lines = str(getattr(error, "cause", error)).strip().splitlines()
            said = " ".join(line for line in lines if not line.startswith("\t"))[:_LONGEST]
            trouble = f"a part of the run cannot be reached: {said}\n  {AGAIN}"
        if trouble is None and console is not None and isinstance(error, BaseException):
            trouble = reason(error)
        if trouble:
            # a scheduler may have signalled every process of the run
            status = REQUEUE if self._watch.stop_signal.received else 1
            _end(self._watch, trouble, job_return, config, status)


def _is_of_rays_start(error: Exception) -> bool:
    """Return whether `ray.init` raised an error; Ray has no exception type for a failed start."""
    return any(frame.f_code is _RAY_INIT for frame, _ in traceback.walk_tb(error.__traceback__))


def _no_ray(error: Exception) -> str:
    wrong_settings = isinstance(error, TypeError | ValueError)
    remedy = "correct ray_kwargs.ray_init" if wrong_settings else _BUSY
    lines = str(error).strip().splitlines() or [""]
    return f"Ray did not start ({type(error).__name__}: {lines[0][:_LONGEST]}): {remedy}"


def _end(
    watch: Watch, trouble: str, job_return: JobReturn, config: DictConfig, status: int
) -> NoReturn:
    error = job_return._return_value
    if isinstance(error, BaseException):
        with suppress(OSError):
            file = Path(config.docagent.run_dir) / TRACEBACK_FILE
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(traceback_text(error), encoding="utf-8")
            trouble = f"{trouble}\n  the trainer's traceback: {file}"
    watch.end_processes()
    if (console := run_console()) is not None:
        console.show_tail()
    tell(clean(trouble))
    raise SystemExit(status) from None
