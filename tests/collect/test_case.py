"""What filters see of real sessions of all systems, and the files that name filters."""

from __future__ import annotations

import pytest

from docagent_rl.collect.case import case_of
from docagent_rl.collect.config import CollectConfig, preset_names
from docagent_rl.collect.filters import Answer, Evidence, Format, Scoring
from docagent_rl.errors import UserError
from docagent_rl.play.scripted import ScriptPlayer
from docagent_rl.systems import SYSTEMS
from tests.play.stage import resources


@pytest.mark.parametrize("system", sorted(SYSTEMS))
async def test_the_oracle_passes_every_filter_that_asks_what_it_did(world, system):
    player = ScriptPlayer(resources(world, system, judge={"kind": "anls"}), validate=False)
    record = world.records[0]
    found = case_of(await player.play(record, 0))
    assert found.key == (record.question_id, 0)
    assert found.references == record.answers
    assert found.gold == {f"{record.doc_id}#{page}" for page in record.evidence_pages}
    assert found.gold <= found.shown
    assert Format().keep([found]) == Evidence().keep([found]) == [True]
    right = system != "mm_doc_r1" or found.outcome == 1
    assert Answer(by=Scoring.ANLS, threshold=0.5).keep([found]) == [right]
    assert found.listed == (found.gold if system == "doc_v_star" else None)


@pytest.mark.parametrize("name", preset_names())
def test_presets_name_their_source_and_where_they_depart(name):
    config = CollectConfig.load(name)
    assert config.source
    assert config.departures
    assert config.systems == (name,)
    assert config.filters[0].kind == "format"
    with pytest.raises(UserError, match=name):
        config.check_system("alden")


def test_a_file_of_ones_own_may_name_filters_alone(tmp_path):
    (tmp_path / "own.yaml").write_text("filters: [format, {kind: answer, by: exact, threshold: 1.0}]\n")
    config = CollectConfig.load(str(tmp_path / "own.yaml"))
    assert config.filters == (Format(), Answer(by=Scoring.EXACT, threshold=1.0))


def test_a_preset_that_there_is_none_of_is_named():
    with pytest.raises(UserError, match=r"'own'.*doc_v_star, mm_doc_r1, unidoc_rl"):
        CollectConfig.load("own")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("filters: [formt]\n", "formt"),
        ("filterz: []\n", "filterz"),
        ("filters: [{kind: answer, threshold: 3}]\n", "threshold"),
        ("[]\n", r"own\.yaml"),
        ("a: [\n", r"own\.yaml"),
    ],
)
def test_a_wrong_file_is_told(tmp_path, text, named):
    (tmp_path / "own.yaml").write_text(text)
    with pytest.raises(UserError, match=named):
        CollectConfig.load(str(tmp_path / "own.yaml"))
