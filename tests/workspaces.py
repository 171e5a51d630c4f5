"""A workspace with a short and a long document, real from the PDFs to the model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from omegaconf import DictConfig

from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.documents import RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.tiny.model import build_tiny_model
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.retrieval.indexes import build_vectors
from docagent_rl.samples.parquet import write_parquet
from docagent_rl.samples.sample import Sample, Split
from tests.documents.conftest import write_pdf

PAGES = {"short": 6, "long": 130}


@dataclass(frozen=True)
class Workspace:
    """The workspace of a run."""

    path: Path

    def sample(self, doc_id: str = "short", **changes) -> Sample:
        fields = {
            "question_id": f"about-{doc_id}",
            "dataset": "made",
            "split": Split.TRAIN,
            "doc_id": doc_id,
            "question": "Which page holds the word page3?",
            "answers": ("3",),
            "evidence_pages": (3,),
            "answerable": True,
            "extra": {"gold": "3", "num_pages": PAGES[doc_id], "native_id": 1, "row": 0},
        }
        return Sample(**{**fields, **changes})

    def config(self, recipe: str, *overrides: str) -> DictConfig:
        return composed_recipe(
            recipe,
            [
                "+profile=cpu",
                f"docagent.workspace={self.path}",
                "docagent.provision=null",
                "data.train_batch_size=1",
                "actor_rollout_ref.actor.ppo_mini_batch_size=1",
                f"actor_rollout_ref.model.path={self.path / 'model'}",
                *overrides,
            ],
        )

    def data(self, folder: Path, train: Sequence[Sample], val: Sequence[Sample]) -> list[str]:
        """Write files of these questions; return the overrides that name them."""
        files = {"train": train, "val": val}
        paths = {
            name: write_parquet(samples, folder / f"{name}.parquet")
            for name, samples in files.items()
        }
        return [f"data.{name}_files={path}" for name, path in paths.items()]


@pytest.fixture(scope="session")
def long_workspace(tmp_path_factory) -> Workspace:
    root = tmp_path_factory.mktemp("long_workspace")
    for name, pages in PAGES.items():
        texts = [f"page{number} of {name}" for number in range(1, pages + 1)]
        write_pdf(root / "pdf" / f"{name}.pdf", texts, size=(210, 297))
    ingest(root / "pdf", root / "store", workers=1, settings=RenderSettings(dpi=36))
    store = DocumentStore(root / "store")
    BM25Retriever.build(store).save(root / "index")
    # the hybrid of ALDEN ranks texts by it
    build_vectors(store, root / "index_minilm", "minilm")
    build_tiny_model(root / "model")
    return Workspace(root)


@pytest.fixture
def resources_of(long_workspace) -> Callable:
    """Return the resources that the trajectories of a recipe share."""
    from omegaconf import OmegaConf

    from docagent_rl.config import DocAgentConfig
    from docagent_rl.rollout.resources import TrajectoryResources
    from docagent_rl.training.settings.models import load_tokenizer

    def make(recipe: str, *overrides: str) -> TrajectoryResources:
        config = long_workspace.config(recipe, *overrides)
        parsed = DocAgentConfig.parse(OmegaConf.to_container(config.docagent, resolve=True))
        return TrajectoryResources(parsed, *load_tokenizer(config))

    return make
