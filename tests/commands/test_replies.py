from __future__ import annotations

from pathlib import Path

from omegaconf import OmegaConf

from docagent_rl.commands.replies import keep_replies
from docagent_rl.endpoints.model_config import ModelConfig

URL = "http://127.0.0.1:9/v1"


def run(judge, roles=None):
    return OmegaConf.create({"docagent": {"judge": judge, "roles": roles or {}}})


def test_what_is_asked_is_kept_in_the_folder_of_the_run(tmp_path: Path) -> None:
    roles = {
        "planner": {"base_url": URL, "cache_dir": None},
        "reader": {"base_url": URL, "cache_dir": "/elsewhere"},
        "answer": {"backend": "rule"},
    }
    given = run({"kind": "openai", "base_url": URL}, roles)
    playing, model = keep_replies(given, ModelConfig(base_url=URL, model="m"), tmp_path)
    assert model.cache_dir == tmp_path / "replies" / "model"
    assert playing.docagent.judge.cache_dir == str(tmp_path / "replies" / "judge")
    assert playing.docagent.roles.planner.cache_dir == str(tmp_path / "replies" / "planner")
    assert playing.docagent.roles.reader.cache_dir == "/elsewhere"
    assert "cache_dir" not in playing.docagent.roles.answer
    # what the run is does not depend on where it lies
    assert given == run({"kind": "openai", "base_url": URL}, roles)


def test_who_is_not_asked_and_who_has_a_place_stay_as_they_are(tmp_path: Path) -> None:
    own = ModelConfig(base_url=URL, model="m", cache_dir=tmp_path / "own")
    playing, model = keep_replies(run({"kind": "rule", "base_url": URL}), own, tmp_path)
    assert "cache_dir" not in playing.docagent.judge
    assert model.cache_dir == tmp_path / "own"
    weights = ModelConfig(model="checkpoints/global_step_3")
    assert keep_replies(run({"kind": None}), weights, tmp_path)[1].cache_dir is None
