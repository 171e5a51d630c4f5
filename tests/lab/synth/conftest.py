import pytest

from docagent_rl.lab.synth.layout import Rendered, render_document
from docagent_rl.lab.synth.plan import DocumentPlan
from docagent_rl.lab.synth.questions import make_questions
from docagent_rl.lab.synth.settings import SynthSettings
from docagent_rl.samples.sample import Sample, Split

# every question that can be asked about these documents, not a sample: one of each difficulty
SETTINGS = SynthSettings(documents=6, seed=5, questions_per_document=10_000)
INDICES = (0, 2, 4)


@pytest.fixture(scope="session")
def documents() -> list[Rendered]:
    return [render_document(DocumentPlan(SETTINGS, index)) for index in INDICES]


@pytest.fixture(scope="session")
def questions(documents: list[Rendered]) -> dict[str, list[Sample]]:
    """Return all possible samples by document id."""
    return {
        rendered.plan.doc_id: make_questions(rendered, SETTINGS, Split.TRAIN)
        for rendered in documents
    }
