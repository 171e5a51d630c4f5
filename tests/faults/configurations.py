"""Impossible, misspelt and missing settings of every recipe, through the checks before a run."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Any

from hydra import compose, initialize_config_module
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from docagent_rl.checks.preflight import check, pass_on_environment
from docagent_rl.checks.recipe_list import recipe_names
from docagent_rl.documents import DocumentStore
from docagent_rl.documents.ingestion import ingest
from docagent_rl.records.parquet import write_parquet
from docagent_rl.records.record import read_jsonl
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.retrieval.building import build_vectors
from docagent_rl.synth import SynthSettings, synthesize
from docagent_rl.synth.settings import Difficulty
from docagent_rl.systems import get_system
from docagent_rl.tiny.qwen2_5_vl import build_tiny_qwen2_5_vl
from docagent_rl.training.loopback import keep_to_loopback
from docagent_rl.training.settings.values import RULES
from tests.faults.campaign import Campaign, Case
from tests.faults.verdict import Fault, Verdict, bad, judged, refused, right

# where things are: another place is a missing file, tried once; making a demo takes minutes
_SPARED = ("docagent.auto_demo", "docagent.workspace", "docagent.profile", "docagent.tiny_model")
_NONSENSE = (
    "nonsense",
    "{a: 1}",
    "[1,2]",
    "null",
    "-1",
    "0",
    "1e999",
    "nan",
    "''",
    "true",
    "1.5",
    "99999999999999999999",
)


class _Kind(StrEnum):
    VALUE = "value"
    UNKNOWN = "unknown key"
    TYPO = "misspelt key"
    GONE = "key taken out"


@dataclass(frozen=True, slots=True)
class _Prepared:
    root: Path
    recipes: Mapping[str, Mapping[str, Any]]
    """Values by dotted key, of every recipe as it is."""


def prepare(folder: Path) -> _Prepared:
    warnings.simplefilter("ignore")
    synthesize(folder / "made", SynthSettings(documents=3, seed=5, difficulties=(Difficulty.EASY,)))
    ingest(folder / "made" / "pdfs", folder / "store", workers=1)
    store = DocumentStore(folder / "store")
    BM25Retriever.build(store).save(folder / "index")
    # the hybrid of ALDEN ranks texts by it
    build_vectors(store, folder / "index_minilm", "minilm")
    records = [record for record in read_jsonl(folder / "made" / "records.jsonl") if record.gold_pages]
    for split in ("train", "val"):
        write_parquet(records, folder / "data" / f"{split}.parquet")
    configs = {name: _composed(folder, name) for name in recipe_names()}
    for system in {config.docagent.system for config in configs.values()}:
        build_tiny_qwen2_5_vl(folder / "models" / f"tiny_{get_system(system).name}")
    return _Prepared(folder, {name: _keys(config) for name, config in configs.items()})


def attempt(prepared: _Prepared, cases: Sequence[Case], folder: Path) -> list[Verdict]:
    os.chdir(folder)  # what relative paths would make is left there, and found
    return [_one(prepared, case, folder) for case in cases]


def _one(prepared: _Prepared, case: Case, folder: Path) -> Verdict:
    random = case.random()
    # every recipe as often as the others
    recipe = sorted(prepared.recipes)[case.number % len(prepared.recipes)]
    key, override, must = _changed(prepared.recipes[recipe], random)
    names = (key, key.rpartition(".")[2], *key.split(".")[-2:-1])

    def tried() -> Verdict:
        try:
            config = _composed(prepared.root, recipe, override)
            check(config)
            pass_on_environment(config)
            keep_to_loopback(config)
        except (HydraException, OmegaConfBaseException) as error:
            return refused(str(error), *names)
        if must:
            return bad(Fault.WRONG, f"{recipe} {override} passes")
        return right(f"{recipe} {override}")

    verdict = judged(tried, *names)
    if left := [str(path) for path in folder.iterdir()]:
        return bad(Fault.LEFTOVER, f"{recipe} {override}: {left}")
    if verdict.fault and override not in verdict.detail:
        return bad(verdict.fault, f"{recipe} {override}: {verdict.detail}")
    return verdict


def _changed(keys: Mapping[str, Any], random: Random) -> tuple[str, str, bool]:
    """A key, the override that changes it, and whether it has to be refused."""
    key = random.choice(sorted(keys))
    kind = random.choices(list(_Kind), (10, 1, 2, 1))[0]
    head, _, leaf = key.rpartition(".")
    match kind:
        case _Kind.UNKNOWN:
            return f"{head}.unheard_of", f"+{head}.unheard_of=1", not _is_free(head)
        case _Kind.TYPO:
            at = random.randrange(len(leaf))
            typo = leaf[:at] + random.choice("xyz") + leaf[at:]
            return f"{head}.{typo}", f"+{head}.{typo}=1", not _is_free(head)
        case _Kind.GONE:
            return key, f"~{key}", False
    value = random.choice(_NONSENSE)
    number = isinstance(keys[key], int | float) and not isinstance(keys[key], bool)
    return key, f"{key}={value}", number and value in ("nonsense", "{a: 1}", "[1,2]", "nan", "''")


def _is_free(head: str) -> bool:
    """Sections whose keys are names that users choose."""
    return head.endswith((".options", ".roles", "override_config")) or head == "docagent.env_cpu"


def _composed(root: Path, recipe: str, *overrides: str) -> DictConfig:
    fixed = ["+profile=cpu", f"docagent.workspace={root}", "docagent.auto_demo=false"]
    with initialize_config_module(config_module="verl.trainer.config", version_base=None):
        return compose(recipe, overrides=[*fixed, *overrides])


def _keys(config: DictConfig) -> dict[str, Any]:
    """The values of ours, and of verl's keys that we have rules for."""
    ours = {
        f"docagent.{key}": value
        for key, value in _leaves(OmegaConf.to_container(config.docagent, resolve=True))
    }
    verls = {key: OmegaConf.select(config, key) for key in RULES}
    return {
        key: value
        for key, value in {**ours, **verls}.items()
        if key in RULES or (value is not None and not key.startswith((*_SPARED, "docagent.env_cpu")))
    }


def _leaves(section: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found = []
    for key, value in section.items():
        if isinstance(value, Mapping) and value:
            found += _leaves(value, f"{prefix}{key}.")
        else:
            found.append((f"{prefix}{key}", value))
    return found


CAMPAIGN = Campaign(
    name="configurations",
    what="settings of every recipe: impossible values and types, null, unknown and misspelt keys",
    short=12,
    long=300,
    prepare=prepare,
    attempt=attempt,
    batch=12,
    seconds=60,
    start_seconds=400,
    memory_gib=4,
)
