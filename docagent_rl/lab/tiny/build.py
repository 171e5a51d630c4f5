"""The tiny model of a system, warmed up on scripted trajectories."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.store import DocumentStore
from docagent_rl.envs.services import EnvServices, RetrieverService
from docagent_rl.lab.synth import DocumentDifficulty, SynthSettings, synthesize
from docagent_rl.lab.synth.settings import QuestionKind
from docagent_rl.models import get_family
from docagent_rl.retrieval.base import Retriever
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.rewards.rule_judge import RuleJudge
from docagent_rl.samples.questions import read_questions
from docagent_rl.samples.sample import Sample
from docagent_rl.systems import DEFAULT_SYSTEM, DEFAULT_TEXT_SYSTEM, get_system

if TYPE_CHECKING:
    from docagent_rl.envs.script import Script
    from docagent_rl.lab.tiny.play import StagedPlayer

logger = logging.getLogger(__name__)

ASKED = frozenset({QuestionKind.TEXT_FACT, QuestionKind.PAGE_INDEX})
"""Kinds of synthetic questions to train on, which are answered by a sentence on one page. A tiny
model can read neither tables nor charts, and if a question is never answered, all its trajectories
get the same reward.
"""
STAND_INS = 8
"""Number of synthetic reports on which a model is warmed up if the documents are the user's."""


class World(NamedTuple):
    """Documents, a retriever for them, and questions about them."""

    store: DocumentStore
    retriever: Retriever
    samples: Sequence[Sample]


def make_players(
    name: str, env: Mapping[str, Any] | None, world: World, *, family: str
) -> list[StagedPlayer]:
    """Return the scripted policies of a system with their stages; several if the model has to learn
    several configurations.

    A system without a script is replaced by a published one that a model of `family` can play, and
    a warning says so; `env` is `System.small` by default.

    Raises:
        UserError: `env` is not a configuration of the system.
    """
    from docagent_rl.lab.tiny.play import PlayStage, StagedPlayer

    system = get_system(name)
    if system.script is None:
        stand_in = DEFAULT_TEXT_SYSTEM if get_family(family).vision is None else DEFAULT_SYSTEM
        logger.warning(
            "the system %s has no script of turns (System.agents), so the tiny model learns the "
            "turns of %s: most of its turns will be invalid (docs/extending.md)",
            name,
            stand_in,
        )
        system = get_system(stand_in)
        env = None
    config = system.parse_config(system.small if env is None else env)
    services = EnvServices(world.store, RetrieverService(world.retriever), RuleJudge())
    script = cast("type[Script]", system.script)  # the default system has one
    return [
        StagedPlayer(PlayStage(system, each, services, world.samples), script(each))
        for each in script.configs(config)
    ]


def build_trained_model(
    path: Path,
    players: Sequence[StagedPlayer],
    *,
    family: str,
    seed: int = 0,
    changes: Mapping[str, Any] | None = None,
    progress: bool = False,
) -> Path:
    """Make a tiny model that has learnt the form of a turn, since random weights would only produce
    noise.

    An existing model is left alone, no matter how it was made. The model learns from trajectories
    of `players`; `changes` are settings of `WarmUp`.
    """
    from docagent_rl.lab.tiny.model import build_tiny_model
    from docagent_rl.lab.tiny.play import scripted_conversations
    from docagent_rl.lab.tiny.warm_up import WarmUp

    transcripts = partial(scripted_conversations, players)
    settings = WarmUp(transcripts, **{"seed": seed, **players[0].script.warm_up, **(changes or {})})
    return build_tiny_model(
        path, family=family, seed=seed, warm_up=settings, show_progress=progress
    )


def build_model_for(
    path: Path, name: str, env: Mapping[str, Any] | None, *, family: str, progress: bool
) -> None:
    """Make the tiny model of a system in a user's workspace, and write nothing else there.

    It is trained on synthetic reports in a temporary folder.

    Raises:
        UserError: `env` is not a configuration of the system.
    """
    with tempfile.TemporaryDirectory(prefix="docagent-warm-up-") as folder:
        players = make_players(name, env, _synthetic_world(Path(folder)), family=family)
        build_trained_model(path, players, family=family, progress=progress)


def _synthetic_world(folder: Path) -> World:
    """Create short synthetic reports with easy questions."""
    levels = (DocumentDifficulty.EASY, DocumentDifficulty.MEDIUM)
    synthesize(folder / "synthetic", SynthSettings(documents=STAND_INS, difficulties=levels))
    ingest(folder / "synthetic" / "pdfs", folder / "store", workers=1)
    store = DocumentStore(folder / "store")
    made = read_questions(folder / "synthetic" / "samples.jsonl")
    samples = [r for r in made if r.gold_pages and r.extra["kind"] in ASKED]
    return World(store, BM25Retriever.build(store), samples)
