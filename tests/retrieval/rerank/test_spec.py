from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from docagent_rl.retrieval.config import RerankConfig
from docagent_rl.retrieval.rerank.spec import RERANKERS, RerankerSpec


@pytest.mark.parametrize("path", Path("recipes/rerank").glob("*.yaml"))
def test_an_overlay_names_a_known_model(path):
    assert RerankConfig.model_validate(yaml.safe_load(path.read_text())).model in RERANKERS


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"content": "image"}, "text"),
        ({"family": "yes_no"}, "query_prompt"),
        (
            {"family": "yes_no", "content": "image", "query_prompt": "{}", "page_prompt": "x"},
            "image_pad",
        ),
        ({"page_prompt": "none"}, "page_prompt"),
    ],
)
def test_what_cannot_score_is_refused(changes, named):
    with pytest.raises(ValidationError, match=named):
        RerankerSpec.model_validate({"family": "cross_encoder", "model": "m", **changes})
