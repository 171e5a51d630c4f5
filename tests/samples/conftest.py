from collections.abc import Callable

import pytest

from docagent_rl.samples.sample import Sample, Split
from tests.corpus import store  # noqa: F401  a fixture


@pytest.fixture
def make_sample() -> Callable[..., Sample]:
    """Return a valid sample with the given fields changed; `extra` is merged into the required
    keys.
    """

    def make(**changes: object) -> Sample:
        extra = {"gold": "41", "num_pages": 9, "native_id": 7, "row": 0, **changes.pop("extra", {})}
        fields = {
            "question_id": "q1",
            "dataset": "synthetic",
            "split": Split.TRAIN,
            "doc_id": "report.v2",
            "question": "How many?",
            "answers": ("41",),
            "answer_format": "Int",
            "evidence_pages": (2, 5),
            "evidence_boxes": {5: ((0.1, 0.2, 0.5, 0.25),)},
            "evidence_sources": ("Table",),
            "answerable": True,
        }
        return Sample(**{**fields, **changes}, extra=extra)

    return make
