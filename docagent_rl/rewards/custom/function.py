"""A reward function of the user's own: loading it, and calling it."""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.base.user_code import described, import_module
from docagent_rl.rewards.custom.config import KEY, RewardFunctionConfig, RewardMode
from docagent_rl.rewards.custom.result import ResultError, numbers_of
from docagent_rl.rewards.custom.signature import RewardCall, style_of

THREADS = 32
"""Calls of the function at a time in a process; others wait."""


class RewardFunctionError(InfrastructureError):
    """The user's reward function failed: its trajectory is masked, and not played again.

    Another trajectory in its place would make those that the function can read likelier.
    """


class RewardFunction:
    """A reward function, loaded and ready to be called.

    Raises:
        UserError: its file or module, its name or its signature is not what it has to be.
    """

    def __init__(self, config: RewardFunctionConfig) -> None:
        self.config = config
        module = _module(config)
        self._function = _named(module, config)
        self.place = f"{config.name} ({_place(self._function, config)})"
        """The name of the function, with its file and line."""
        self.style = style_of(
            self._function, vars(module), config.reward_kwargs, f"{KEY}: {self.place}"
        )
        self.digest = _digest(module)
        """The SHA-256 of its source, empty where there is none."""
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="reward_function")

    @property
    def name(self) -> str:
        """Return the name of its term."""
        return self.config.name

    @property
    def weight(self) -> float:
        """Return the factor of its number in the reward."""
        return self.config.weight

    @property
    def replaces(self) -> bool:
        """Return whether its number is the only reward."""
        return self.config.mode is RewardMode.REPLACE

    async def __call__(self, call: RewardCall) -> dict[str, float]:
        """Return the numbers of a trajectory by term, the reward first (`numbers_of`).

        A plain function runs in a thread, so that it may wait for a service while other
        trajectories go on. What is awaitable is awaited in the event loop.

        Raises:
            RewardFunctionError: names the question and the function: it raised, or returned no
                reward.
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
        """Call the function; return what it returned, or raised.

        A `StopIteration` that left the thread would never reach the event loop, which would wait
        for ever.
        """
        positional, named = call.arguments(self.style, self.config.reward_kwargs)
        try:
            return self._function(*positional, **named), None
        except (Exception, SystemExit) as error:
            return None, error

    def _failed(self, call: RewardCall) -> str:
        return f"question {call.question_id!r}: the reward function {self.place}"


def load_reward_function(config: RewardFunctionConfig) -> RewardFunction | None:
    """Return the configured function, `None` where there is none; raises `UserError`
    (`RewardFunction`).
    """
    return None if config.path is None else RewardFunction(config)


def _module(config: RewardFunctionConfig) -> ModuleType:
    """Return the module of a function; a file is run under a name of its own.

    Raises:
        UserError: there is no such file or module, or it raises.
    """
    named = f"{KEY}.path={config.path}"
    if config.module is not None:
        return import_module(config.module, named)
    file = config.file
    if file is None or not file.is_file():
        raise UserError(
            f"{named}: there is no file {file}; give a Python file, or pkg://package.module"
        )
    name = f"docagent_reward_function_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UserError(
            f"{named}: Python reads no module from {file.name}: its name has to end in .py"
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # data classes look up the module that they are in
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever a file of the user's raises
        del sys.modules[name]
        raise UserError(
            f"{named} cannot be loaded: {described(error)}; what it imports has to be installed, "
            "or on "
            "PYTHONPATH"
        ) from error
    return module


def _named(module: ModuleType, config: RewardFunctionConfig) -> Callable[..., Any]:
    found = getattr(module, config.name, None)
    if found is None:
        functions = [
            name for name, each in inspect.getmembers(module, inspect.isfunction) if name[0] != "_"
        ]
        there = f"it has {', '.join(functions)}" if functions else "it has no function"
        raise UserError(
            f"{KEY}.name={config.name}: {config.path} has nothing of that name; {there}"
        )
    if not callable(found) or inspect.isclass(found):
        raise UserError(
            f"{KEY}.name={config.name}: in {config.path} that is of type {type(found).__name__}, "
            "and has to "
            "be a function"
        )
    return found


def _place(function: Callable[..., Any], config: RewardFunctionConfig) -> str:
    """Return file and first line of a function; the path of the configuration where Python has
    none.
    """
    inner = inspect.unwrap(function)
    if not inspect.isroutine(inner):  # an instance of a class, whose calls are a method's
        inner = type(inner).__call__
    code = getattr(inner, "__code__", None)
    return str(config.path) if code is None else f"{code.co_filename}, line {code.co_firstlineno}"


def _digest(module: ModuleType) -> str:
    file = Path(module.__file__ or "")
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
