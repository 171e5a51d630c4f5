"""Loading and calling a custom reward function."""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.base.user_code import described, load_source
from docagent_rl.rewards.custom.config import KEY, RewardFunctionConfig, RewardMode
from docagent_rl.rewards.custom.result import ResultError, numbers_of
from docagent_rl.rewards.custom.signature import RewardCall, style_of

THREADS = 32
"""The maximum number of concurrent calls of the function in a process; further calls wait."""


class RewardFunctionError(InfrastructureError):
    """The user's reward function failed: the trajectory is masked and not retried.

    A retry would bias training towards trajectories on which the function does not fail.
    """


class RewardFunction:
    """A reward function, loaded and ready to be called.

    Raises:
        UserError: the file, module, name or signature is invalid.
    """

    def __init__(self, config: RewardFunctionConfig) -> None:
        self.config = config
        path = str(config.path)
        module = load_source(path, f"{KEY}.path={path}")
        self._function = _named(module, config)
        self.place = f"{config.name} ({_place(self._function, config)})"
        """The name of the function, with its file and line."""
        self.style = style_of(
            self._function, vars(module), config.reward_kwargs, f"{KEY}: {self.place}"
        )
        self.digest = _digest(module)
        """The SHA-256 of its source; empty if there is no source file."""
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="reward_function")

    @property
    def name(self) -> str:
        """Return the name of the reward term."""
        return self.config.name

    @property
    def weight(self) -> float:
        """Return the weight of the function's value in the reward."""
        return self.config.weight

    @property
    def replaces(self) -> bool:
        """Return whether the function's value is the only reward."""
        return self.config.mode is RewardMode.REPLACE

    async def __call__(self, call: RewardCall) -> dict[str, float]:
        """Return the values for a trajectory by term, the reward first (`numbers_of`).

        A plain function runs in a thread, so that it may wait for a service while other
        trajectories continue. An awaitable result is awaited in the event loop.

        Raises:
            RewardFunctionError: the function raised, or returned no reward; the message names the
                question and the function.
        """
        returned, error = await self._returned(call)
        if error is not None:
            raise RewardFunctionError(f"{self._failed(call)} raised {described(error)}") from error
        try:
            return numbers_of(returned, self.style, self.name)
        except ResultError as problem:
            raise RewardFunctionError(f"{self._failed(call)}: {problem}") from problem

    async def _returned(self, call: RewardCall) -> tuple[Any, BaseException | None]:
        loop = asyncio.get_running_loop()
        context = contextvars.copy_context()
        returned, error = await loop.run_in_executor(
            self._threads, context.run, self._attempt, call
        )
        if error is None and inspect.isawaitable(returned):
            try:
                returned = await returned
            except (Exception, SystemExit) as raised:
                error = raised
        return returned, error

    def _attempt(self, call: RewardCall) -> tuple[Any, BaseException | None]:
        """Call the function; return its result, or the exception that it raised.

        Exceptions are returned because a future cannot carry a `StopIteration`: the event loop
        would wait forever.
        """
        positional, named = call.arguments(self.style, self.config.reward_kwargs)
        try:
            return self._function(*positional, **named), None
        except (Exception, SystemExit) as error:
            return None, error

    def _failed(self, call: RewardCall) -> str:
        return f"question {call.question_id!r}: the reward function {self.place}"


def load_reward_function(config: RewardFunctionConfig) -> RewardFunction | None:
    """Return the configured function, or `None`; raises `UserError` like `RewardFunction`."""
    return None if config.path is None else RewardFunction(config)


def _named(module: ModuleType, config: RewardFunctionConfig) -> Callable[..., Any]:
    found = getattr(module, config.name, None)
    if found is None:
        functions = [
            name for name, each in inspect.getmembers(module, inspect.isfunction) if name[0] != "_"
        ]
        defined = ", ".join(functions) if functions else "no functions"
        raise UserError(
            f"{KEY}.name={config.name}: {config.path} defines no such function; it has {defined}"
        )
    if not callable(found) or inspect.isclass(found):
        raise UserError(
            f"{KEY}.name={config.name}: in {config.path} it is of type {type(found).__name__}, but "
            "must be a function"
        )
    return found


def _place(function: Callable[..., Any], config: RewardFunctionConfig) -> str:
    """Return the file and first line of a function, or the configured path if they are unknown."""
    inner = inspect.unwrap(function)
    if not inspect.isroutine(inner):  # a callable instance, whose code is in `__call__`
        inner = type(inner).__call__
    code = getattr(inner, "__code__", None)
    return str(config.path) if code is None else f"{code.co_filename}, line {code.co_firstlineno}"


def _digest(module: ModuleType) -> str:
    file = Path(module.__file__ or "")
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
