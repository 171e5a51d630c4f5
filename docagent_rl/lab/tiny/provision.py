"""Data that a run under the CPU profile makes before it starts: a demo, or only a tiny model."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.config import DocAgentConfig, data_files
from docagent_rl.lab.tiny.indexes import make_index, place_of
from docagent_rl.lab.tiny.workspace import DemoPaths, Owner
from docagent_rl.retrieval.config import Backend, RetrieverConfig
from docagent_rl.retrieval.index_files import HEADER
from docagent_rl.samples.sample import Split


@dataclass(frozen=True, slots=True)
class RequiredFile:
    """A file or folder that a run reads, with the key that names it."""

    key: str
    path: Path
    place: Path
    """The path at which the demo would make it."""
    command: str
    """Command that makes it from the user's own data."""
    proof: str = ""
    """The file in it that is written last: as long as it is missing, the rest is incomplete."""

    @property
    def exists(self) -> bool:
        """True if it exists and is complete."""
        return (self.path / self.proof).exists()

    @property
    def of_demo(self) -> bool:
        """True if the run's path is the one where the demo would make it."""
        return self.path.absolute() == self.place.absolute()


def provide_data(config: DictConfig, parsed: DocAgentConfig) -> None:
    """Make the demo, in a workspace of its own or a new one, if something that the run reads is
    missing.

    Nothing that exists is changed. The demo is only made if all the paths that the run reads are
    the demo's; if the run reads any of the user's data, the user has to supply the rest too.

    Raises:
        UserError: documents, index or questions are missing and are up to the user; the message
            lists each with the command that makes it.
    """
    paths = DemoPaths(parsed.workspace)
    needs = list(_needs(config, parsed))
    missing = [need for need in needs if not need.exists]
    if not missing:
        return
    owner = paths.owner()
    if owner is Owner.USER or not all(need.of_demo for need in needs):
        raise UserError(_refusal(paths, owner, needs, missing))
    vectors = [each for _, _, each in _indexed(parsed) if each.model is not None]
    if any(need.path not in {each.index for each in vectors} for need in missing):
        from docagent_rl.lab.tiny.demo import prepare_demo

        name = parsed.tiny_model or parsed.system
        progress = sys.stderr.isatty()
        env = _env(parsed, name)
        family = parsed.model_family
        prepare_demo(paths.workspace, progress=progress, system=name, family=family, env=env)
    for each in vectors:
        make_index(each, paths)


def _indexed(parsed: DocAgentConfig) -> Iterator[tuple[str, Path, RetrieverConfig]]:
    """Yield key, index and configuration of each retriever that reads an index."""
    for section, whole in parsed.retrievers().items():
        for key, each in whole.flat(section):
            if each.index is not None and each.backend is not Backend.HTTP:
                yield key, each.index, each


def provide_model(config: DictConfig, parsed: DocAgentConfig) -> None:
    """Make the tiny model of the run, warmed up on synthetic reports; nothing else is written.

    It is made only if the run loads it and it is missing.

    Raises:
        UserError: `docagent.env` is not a configuration of the system.
    """
    name = parsed.tiny_model or parsed.system
    family = parsed.model_family
    path = DemoPaths(parsed.workspace).model(name, family)
    if path.absolute() not in _models(config) or (path / "config.json").is_file():
        return
    from docagent_rl.lab.tiny.build import build_model_for

    build_model_for(path, name, _env(parsed, name), family=family, progress=sys.stderr.isatty())
    print(
        f"docagent-rl: made the tiny model {path}, warmed up on synthetic reports", file=sys.stderr
    )


def _needs(config: DictConfig, parsed: DocAgentConfig) -> Iterator[RequiredFile]:
    """Yield everything that a run reads, except its model."""
    paths = DemoPaths(parsed.workspace)
    store = parsed.store
    yield RequiredFile(
        "docagent.store", store, paths.store, f"docagent-rl ingest PDFS --store {store}"
    )
    for key, index, retriever in _indexed(parsed):
        build = f"docagent-rl index build --store {store} --out {index}"
        if retriever.model is not None:
            build += f" --model {retriever.model}"
        if retriever.engine.kind is not None:
            build += f" --engine {retriever.engine.kind}"
        yield RequiredFile(f"{key}.index", index, place_of(retriever, paths), build, HEADER)
    for key, split in (("train_files", Split.TRAIN), ("val_files", Split.VAL)):
        for file in data_files(config, key):
            convert = f"docagent-rl data convert QUESTIONS.jsonl --store {store} --out {file}"
            yield RequiredFile(f"data.{key}", file, paths.data(split), convert)


def _models(config: DictConfig) -> set[Path]:
    """Return the folders from which the run would load a model."""
    keys = ["actor_rollout_ref.model.path"]
    if OmegaConf.select(config, "critic.enable"):
        keys.append("critic.model.path")
    found = (OmegaConf.select(config, key) for key in keys)
    return {Path(str(path)).expanduser().absolute() for path in found if path}


def _refusal(
    paths: DemoPaths, owner: Owner, needs: list[RequiredFile], missing: list[RequiredFile]
) -> str:
    if owner is Owner.USER:
        why = (
            f"workspace {paths.workspace} is yours (it contains {', '.join(paths.contents())}), so "
            "+profile=cpu adds nothing to it except the tiny model"
        )
    else:
        own = ", ".join(f"{need.key}={need.path}" for need in needs if not need.of_demo)
        why = f"the run reads data of your own ({own}), so the demo is not made"
    lines = [
        f"{need.key}: {need.path} does not exist; make it with `{need.command}`" for need in missing
    ]
    if owner is Owner.DEMO:
        lines.append(f"or finish the demo with `docagent-rl demo --workspace {paths.workspace}`")
    elif owner is Owner.USER:
        lines.append("or name a new folder for a demo: docagent.workspace=NEW")
    return "\n  ".join([f"{why}. Missing:", *lines])


def _env(parsed: DocAgentConfig, name: str) -> dict | None:
    # docagent.env describes only the environment of the run's own system
    return parsed.env if name == parsed.system else None
