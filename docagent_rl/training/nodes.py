"""Check on every node of a cluster that the run's files and services are available, before models
are loaded.
"""

import asyncio
import hashlib
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import ray
from omegaconf import DictConfig, OmegaConf
from ray.exceptions import GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.base.text import clean
from docagent_rl.config import DocAgentConfig, plain_section
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.objects import ObjectKind
from docagent_rl.documents.store import DocumentStore
from docagent_rl.envs.role_models import make_roles
from docagent_rl.retrieval.config import Backend
from docagent_rl.retrieval.index_files import HEADER
from docagent_rl.retrieval.opening import search_servers
from docagent_rl.rewards.custom.config import KEY
from docagent_rl.rewards.judge import make_judge
from docagent_rl.watch.processes import end_leftovers, read_start

logger = logging.getLogger(__name__)

PACKAGES = ("docagent-rl", "verl", "torch", "transformers")
"""Packages whose versions must be the same on all nodes; Ray itself compares Ray and Python."""
MODEL = "actor_rollout_ref.model.path"
CRITIC = "critic.model.path"
EMBEDDER = "docagent.advantage.embedder.model"
FOLDERS = ("docagent.run_dir", "trainer.default_local_dir")
ATTACHED_VARIABLE = "DOCAGENT_ATTACHED"
"""Set if the run attached to a running Ray: a node's environment is then not the driver's."""
LIMIT_S = 300.0
"""Seconds for the results of all nodes: the first task on a node starts a process, which has to
import the package.
"""
_LONGEST = 600
_DIGITS = 8
"""Digits of a SHA-256 in messages."""
SAMPLES = 8
"""The approximate number of documents whose first page is looked up."""
CONFIG = "config.json"


def of_store(path: Path) -> str:
    """Return a fingerprint of a store's documents, after looking up the pages of a few of them.

    Raises:
        UserError: the folder is not a store, or a page is missing.
        OSError: the store cannot be read.
    """
    layout = StoreLayout(path).require()
    files = sorted(layout.manifests())
    for file in files[:: max(1, len(files) // SAMPLES)]:
        manifest = layout.read_manifest(file)
        if not layout.objects.has(manifest.pages[0].image, ObjectKind.IMAGE):
            raise UserError(f"{path}: the image of page 1 of {manifest.doc_id!r} is missing")
    return of_files(files)


def of_folder(path: Path, first: str) -> str:
    """Return a fingerprint of a folder: the content of its file `first`, and all names and sizes.

    Hidden files are ignored. For an index, `first` is the header, which contains the checksums of
    the other files.
    """
    shown = (
        file
        for file in sorted(path.rglob("*"))
        if "/." not in file.as_posix().removeprefix(str(path))
    )
    return of_files((file for file in shown if file.is_file()), (path / first).read_bytes())


def of_files(files: Iterable[Path], content: bytes = b"") -> str:
    """Return the number of files, and a digest of their names, their sizes and a content."""
    lines = [f"{file.name} {file.stat().st_size}".encode() for file in files]
    return (
        f"{len(lines)} files, {hashlib.sha256(b'/'.join([content, *lines])).hexdigest()[:_DIGITS]}"
    )


@dataclass(frozen=True, slots=True)
class NodeReport:
    """The problems of one node, and `seen`: descriptions, by key and path, of what must be the same
    on all nodes.
    """

    problems: tuple[str, ...] = ()
    seen: dict[str, str] = field(default_factory=dict)


def inspect_node(config: DictConfig, embeds: bool) -> NodeReport:
    """End leftover processes of earlier starts on this node, and report its files and services.

    This takes seconds. `config` has been resolved by the driver; `embeds` says whether the
    estimator uses `docagent.advantage.embedder`.
    """
    parsed = DocAgentConfig.parse(plain_section(config.docagent))
    if start := read_start(parsed.run_dir):
        end_leftovers(start.earlier)
    problems = []
    seen = {}
    for key, path, read in _files(config, parsed, embeds):
        try:
            seen[f"{key}={path}"] = read(path)
        except OSError as error:
            problems.append(f"{key}={path}: {error.strerror or error}")
        except (UserError, ValueError) as error:
            problems.append(f"{key}={path}: {error}")
    for key in FOLDERS:
        folder = Path(str(OmegaConf.select(config, key))).expanduser().absolute()
        place = next(each for each in (folder, *folder.parents) if each.exists())
        if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
            problems.append(f"{key}={folder} cannot be written")
    problems += asyncio.run(_silent(parsed))
    for package in PACKAGES:
        try:
            seen[f"the package {package}"] = version(package)
        except PackageNotFoundError:
            seen[f"the package {package}"] = "not installed"
    return NodeReport(tuple(problems), seen)


def _files(
    config: DictConfig, parsed: DocAgentConfig, embeds: bool
) -> Iterator[tuple[str, Path, Callable[[Path], str]]]:
    yield "docagent.store", parsed.store, of_store
    for section, retriever in parsed.retrievers().items():
        for key, index in retriever.indexes(section):
            yield key, index, partial(of_folder, first=HEADER)
    if parsed.prompt is not None:
        yield "docagent.prompt", parsed.prompt, lambda path: of_files([path])
    if (file := parsed.reward_function.file) is not None:
        yield f"{KEY}.path", file, lambda path: of_files([path], path.read_bytes())
    for key in ("data.train_files", "data.val_files"):
        value = OmegaConf.select(config, key) or ()
        for file in [value] if isinstance(value, str) else value:
            yield key, Path(str(file)).expanduser(), lambda path: of_files([path])
    models = [MODEL]
    if config.critic.enable:
        models.append(CRITIC)
    if embeds and parsed.advantage.embedder.function is None:
        models.append(EMBEDDER)
    for key in models:
        name = str(OmegaConf.select(config, key) or "")
        # any other name is that of a model on the hub, or in a wheel
        if name.startswith(("/", "~", ".")):
            yield key, Path(name).expanduser(), partial(of_folder, first=CONFIG)


async def _silent(parsed: DocAgentConfig) -> list[str]:
    """Return why the judge, roles or search servers do not respond to this node, or lack a key."""
    sections = parsed.retrievers()
    http = any(
        each.backend is Backend.HTTP for whole in sections.values() for _, each in whole.flat("")
    )
    kinds: list[Callable[[], Iterable[Any]]] = [lambda: [make_judge(parsed.judge)]]
    if parsed.roles or http:
        with suppress(UserError):  # problems of the store are already reported
            store = DocumentStore(parsed.store)
            kinds.append(lambda: make_roles(parsed.roles, store).values())
            kinds += [lambda: search_servers(sections, store).values()] * http
    return [each for found in await asyncio.gather(*map(_failures, kinds)) for each in found]


async def _failures(make: Callable[[], Iterable[Any]]) -> list[str]:
    """Return why services cannot be created, or do not respond."""
    try:
        checks = [each.check() for each in make()]
    except (UserError, InfrastructureError) as error:
        return [str(error)]
    return [each for each in await asyncio.gather(*map(_failure, checks)) if each is not None]


async def _failure(check: Awaitable[None]) -> str | None:
    try:
        await check
    except (UserError, InfrastructureError) as error:
        return str(error)
    return None


def check_nodes(config: DictConfig, *, embeds: bool) -> None:
    """Check the run's files and services on all nodes in parallel.

    Nothing is done if the run started Ray and has one node, as the driver has already checked it.
    `config` has no interpolations; `embeds` says whether the estimator uses
    `docagent.advantage.embedder`.

    Raises:
        UserError: a node lacks something, does not respond, or sees something different from the
            other nodes; the message lists all problems of all nodes.
    """
    nodes = usable_nodes(ray.nodes())
    if len(nodes) < 2 and not os.environ.get(ATTACHED_VARIABLE):
        return
    task = ray.remote(num_cpus=0, max_retries=0)(inspect_node)
    asked = {}
    for node, node_id in nodes.items():
        there = NodeAffinitySchedulingStrategy(node_id, soft=False)
        asked[node] = task.options(scheduling_strategy=there).remote(config, embeds)
    ray.wait(list(asked.values()), num_returns=len(asked), timeout=LIMIT_S)
    reports = {node: _answer(answer) for node, answer in asked.items()}
    if message := problem_message(reports):
        raise UserError(message)
    logger.info("%d nodes see the same files and services: %s", len(nodes), ", ".join(nodes))


def usable_nodes(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the ids, by name, of the nodes in `ray.nodes()` that verl may use.

    verl places agent loops on all nodes with a CPU.
    """
    found = sorted(
        (row["NodeManagerAddress"], row["NodeID"])
        for row in rows
        if row["Alive"] and max(row["Resources"].get(kind, 0) for kind in ("CPU", "GPU")) > 0
    )
    return {f"{address} ({node_id[:8]})": node_id for address, node_id in found}


def problem_message(reports: Mapping[str, NodeReport]) -> str | None:
    """Return one message about all problems on all nodes, or None."""
    lines = [
        f"{node}: {clean(problem)}"
        for node, report in reports.items()
        for problem in report.problems
    ]
    for name in dict.fromkeys(name for report in reports.values() for name in report.seen):
        groups: dict[str, list[str]] = {}
        for node, report in reports.items():
            if name in report.seen:
                groups.setdefault(report.seen[name], []).append(node)
        if len(groups) > 1:
            parts = (f"{what} on {', '.join(nodes)}" for what, nodes in groups.items())
            lines.append(f"{name} is not the same everywhere: {'; '.join(parts)}")
    if not lines:
        return None
    advice = "Every node must see the same files under the same paths, and reach the same services"
    if any("environment variable" in line for line in lines):
        advice += "; a node's environment is that of its `ray start`, or of its container"
    return (
        f"the check of {len(reports)} nodes found problems:\n  "
        + "\n  ".join(lines)
        + f"\n  {advice}."
    )


def _answer(reference: Any) -> NodeReport:
    try:
        return ray.get(reference, timeout=0.1)
    except GetTimeoutError:
        return NodeReport((f"no result within {LIMIT_S:g} s: its disks or its network may hang",))
    except RayError as error:  # for example, a package is missing there, or the node died
        lines = str(getattr(error, "cause", None) or error).strip().splitlines() or [
            type(error).__name__
        ]
        return NodeReport((f"the check failed: {type(error).__name__}: {lines[-1][:_LONGEST]}",))
