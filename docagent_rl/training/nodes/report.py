"""What the machine of this process sees of a run's files and services."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.config import DocAgentConfig, plain
from docagent_rl.documents import DocumentStore
from docagent_rl.envs.role_client import make_roles
from docagent_rl.retrieval.config import Backend
from docagent_rl.retrieval.opening import search_servers
from docagent_rl.rewards.judge import make_judge
from docagent_rl.training.nodes.fingerprint import (
    Fingerprint,
    of_file,
    of_index,
    of_model,
    of_store,
)
from docagent_rl.watch.leftovers import end_leftovers, read_start

PACKAGES = ("docagent-rl", "verl", "torch", "transformers")
"""Of one version on all nodes; Ray compares its own and Python's."""
MODEL, CRITIC = "actor_rollout_ref.model.path", "critic.model.path"
EMBEDDER = "docagent.advantage.embedder.model"
FOLDERS = ("docagent.run_dir", "trainer.default_local_dir")


@dataclass(frozen=True, slots=True)
class NodeReport:
    """Of one node.

    Args:
        problems: what it lacks.
        seen: by key and path, what has to be the same on all nodes.
    """

    problems: tuple[str, ...] = ()
    seen: dict[str, Fingerprint] = field(default_factory=dict)


def inspect_node(config: DictConfig, embeds: bool) -> NodeReport:
    """End what earlier starts of the run have left here, and see what there is.

    It takes seconds, and reads no more of a store than its manifests' ends.

    Args:
        config: the composed configuration, with the values that the driver gave it.
        embeds: the estimator reads `docagent.advantage.embedder`.
    """
    parsed = DocAgentConfig.parse(plain(config.docagent))
    if start := read_start(parsed.run_dir):
        end_leftovers(start.earlier)
    problems, seen = [], {}
    for key, path, read in _files(config, parsed, embeds):
        try:
            seen[f"{key}={path}"] = read(path)
        except OSError as error:
            problems.append(f"{key}={path}: {error.strerror or error}")
        except (UserError, ValueError) as error:
            problems.append(f"{key}={path}: {error}")
    for key in FOLDERS:
        if not _may_write(folder := Path(str(OmegaConf.select(config, key))).expanduser()):
            problems.append(f"{key}={folder} cannot be written")
    problems += asyncio.run(_silent(parsed))
    for package in PACKAGES:
        seen[f"the package {package}"] = Fingerprint(*_version(package))
    return NodeReport(tuple(problems), seen)


def _files(
    config: DictConfig, parsed: DocAgentConfig, embeds: bool
) -> Iterator[tuple[str, Path, Callable[[Path], Fingerprint]]]:
    yield "docagent.store", parsed.store, of_store
    for section, retriever in parsed.retrievers().items():
        for key, index in retriever.indexes(section):
            yield key, index, of_index
    if parsed.prompt is not None:
        yield "docagent.prompt", parsed.prompt, of_file
    for key in ("data.train_files", "data.val_files"):
        value = OmegaConf.select(config, key) or ()
        for file in [value] if isinstance(value, str) else value:
            yield key, Path(str(file)).expanduser(), of_file
    models = [MODEL]
    if config.critic.enable:
        models.append(CRITIC)
    if embeds and parsed.advantage.embedder.function is None:
        models.append(EMBEDDER)
    for key in models:
        name = str(OmegaConf.select(config, key) or "")
        # a name that is no path belongs to a hub, or to a wheel
        if name.startswith(("/", "~", ".")):
            yield key, Path(name).expanduser(), of_model


def _may_write(folder: Path) -> bool:
    place = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    return place.is_dir() and os.access(place, os.W_OK | os.X_OK)


async def _silent(parsed: DocAgentConfig) -> list[str]:
    """What the judge, the roles and search servers do not answer from here, or for want of a key."""
    checks: list[Callable[[], Awaitable[Any]]] = [lambda: make_judge(parsed.judge).check()]
    checks += [lambda: _check_roles(parsed), lambda: _check_servers(parsed)]
    found = await asyncio.gather(*(_failure(check) for check in checks))
    return [each for each in found if each is not None]


async def _check_roles(parsed: DocAgentConfig) -> None:
    if not parsed.roles:
        return
    try:
        store = DocumentStore(parsed.store)
    except UserError:
        return  # told already
    found = await asyncio.gather(*(_failure(role.check) for role in make_roles(parsed.roles, store).values()))
    if problems := [each for each in found if each is not None]:
        raise UserError("; ".join(problems))


async def _check_servers(parsed: DocAgentConfig) -> None:
    sections = parsed.retrievers()
    if all(each.backend is not Backend.HTTP for whole in sections.values() for _, each in whole.flat("")):
        return
    try:
        store = DocumentStore(parsed.store)
    except UserError:
        return  # told already
    servers = search_servers(sections, store)
    found = await asyncio.gather(*(_failure(server.check) for server in servers.values()))
    if problems := [each for each in found if each is not None]:
        raise UserError("; ".join(problems))


async def _failure(check: Callable[[], Awaitable[Any]]) -> str | None:
    try:
        await check()
    except (UserError, InfrastructureError) as error:
        return str(error)
    return None


def _version(package: str) -> tuple[str, str]:
    try:
        found = version(package)
    except PackageNotFoundError:
        found = "not installed"
    return found, found
