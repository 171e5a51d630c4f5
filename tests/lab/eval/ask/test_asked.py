"""A user's documents are prepared once, by content, together with the questions about them."""

import shutil

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.config import DocAgentConfig, plain_section
from docagent_rl.documents import RenderSettings
from docagent_rl.documents.objects import file_digest
from docagent_rl.documents.store import DocumentStore
from docagent_rl.endpoints.endpoint import ModelConfig
from docagent_rl.envs.roles import RoleBackend, RoleName
from docagent_rl.lab.eval.ask import workspace
from docagent_rl.lab.eval.ask.workspace import (
    NOT_KNOWN,
    Workspace,
    configure_for_asking,
    give_roles,
    mirror_folder,
    open_workspace,
    own_question,
    prepare,
)
from docagent_rl.lab.eval.choices import Agent
from docagent_rl.lab.eval.play_config import play_config
from docagent_rl.rollout.playability import recipe_playability

SMALL = RenderSettings(dpi=36)


@pytest.fixture
def pdf(world, tmp_path):
    source = min((world.root / "synthetic" / "pdfs").glob("*.pdf"))
    return shutil.copyfile(source, tmp_path / "My report (2).pdf")


def test_the_same_document_is_there_at_once_whatever_its_folder(pdf, tmp_path, monkeypatch):
    first = prepare([pdf], tmp_path / "root", SMALL)
    (name,) = first.doc_ids
    assert name == "My_report__2"
    assert DocumentStore(first.store).document(name).num_pages >= 3
    monkeypatch.setattr(workspace, "ingest", lambda *_, **__: pytest.fail("ingested again"))
    (tmp_path / "elsewhere").mkdir()
    moved = shutil.copyfile(pdf, tmp_path / "elsewhere" / pdf.name)
    assert prepare([moved], tmp_path / "root", SMALL) == first


def test_other_content_and_sizes_are_other_workspaces_and_what_was_interrupted_is_made_again(
    pdf, tmp_path
):
    first = prepare([pdf], tmp_path / "root", SMALL)
    shutil.rmtree(first.store)
    assert prepare([pdf], tmp_path / "root", SMALL) == first
    assert DocumentStore(first.store).doc_ids() == list(first.doc_ids)
    assert prepare([pdf], tmp_path / "root", RenderSettings(dpi=40)).folder != first.folder
    pdf.write_bytes(pdf.read_bytes() + b"\n% changed\n")
    assert prepare([pdf], tmp_path / "root", SMALL).folder != first.folder


def test_documents_of_one_name_stay_apart(world, pdf, tmp_path):
    other = max((world.root / "synthetic" / "pdfs").glob("*.pdf"))
    (tmp_path / "other").mkdir()
    place = prepare(
        [pdf, shutil.copyfile(other, tmp_path / "other" / pdf.name)], tmp_path / "root", SMALL
    )
    assert len(set(place.doc_ids)) == 2
    assert sorted(place.doc_ids) == DocumentStore(place.store).doc_ids()
    with pytest.raises(UserError, match="twice"):
        prepare([pdf, pdf], tmp_path / "root", SMALL)


def reads(monkeypatch):
    """Collect the names of documents that are read; all others were prepared before."""
    names, whole = [], workspace.ingest

    def noted(*given, **options):
        report = whole(*given, **options)
        names.extend(set(report.ingested) - set(report.reused))
        return report

    monkeypatch.setattr(workspace, "ingest", noted)
    return names


def test_one_more_pdf_costs_one_pdf(world, pdf, tmp_path, monkeypatch):
    other = max((world.root / "synthetic" / "pdfs").glob("*.pdf"))
    prepare([pdf], tmp_path / "root", SMALL)
    read = reads(monkeypatch)
    assert len(prepare([pdf, other], tmp_path / "root", SMALL).doc_ids) == 2
    assert read == [file_digest(other)]


def test_a_folder_is_followed_and_nothing_is_written_there(world, pdf, tmp_path, monkeypatch):
    folder = tmp_path / "corpus"
    (folder / "old").mkdir(parents=True)
    shutil.move(pdf, folder / "old" / "a.pdf")
    read = reads(monkeypatch)
    first = mirror_folder(folder, tmp_path / "root", SMALL)
    assert (first.doc_ids, read) == (("old/a",), ["old/a"])
    assert mirror_folder(folder, tmp_path / "root", SMALL) == first
    shutil.copyfile(max((world.root / "synthetic" / "pdfs").glob("*.pdf")), folder / "b.pdf")
    (folder / "c.pdf").write_bytes(b"no PDF")
    second = mirror_folder(folder, tmp_path / "root", SMALL)
    assert (second.store, second.doc_ids, read) == (first.store, ("b", "old/a"), ["old/a", "b"])
    assert [each.name for each in second.failed] == ["c.pdf"]
    (folder / "old" / "a.pdf").unlink()
    assert mirror_folder(folder, tmp_path / "root", SMALL).doc_ids == ("b",)
    assert sorted(path.name for path in folder.rglob("*")) == ["b.pdf", "c.pdf", "old"]
    (folder / "b.pdf").unlink()
    (folder / "c.pdf").unlink()
    with pytest.raises(UserError, match="no PDF"):
        mirror_folder(folder, tmp_path / "root", SMALL)


def test_a_store_is_asked_as_it_is(world, tmp_path):
    place = open_workspace(world.root / "store", tmp_path / "root")
    assert place.store == world.root / "store"
    assert place.doc_ids == tuple(world.store.doc_ids())
    assert place.folder.is_relative_to(tmp_path / "root")
    with pytest.raises(UserError, match="not a document store"):
        open_workspace(tmp_path, tmp_path / "root")


@pytest.mark.parametrize("name", ["missing", "bad"])
def test_what_is_no_document_is_named(tmp_path, name):
    (tmp_path / "bad.pdf").write_bytes(b"%PDF-1.4 not really")
    with pytest.raises(UserError, match=rf"{name}\.pdf"):
        prepare([tmp_path / f"{name}.pdf"], tmp_path / "root")


ALDEN, VRAG = "alden_qwen2_5_vl_7b", "vrag_rl_qwen2_5_vl_7b"
RECIPES = (ALDEN, VRAG, "doc_v_star_qwen2_5_vl_7b", "mm_doc_r1_qwen3_8b", "unidoc_rl_qwen2_5_vl_7b")


def workspace_of(world, number):
    return Workspace(world.root, world.root / "store", tuple(world.store.doc_ids()[:number]))


def asked(recipe, place):
    run = play_config(recipe, Agent.SYSTEM, ["+retriever=bm25", "+profile=cpu"])
    configure_for_asking(run, place)
    return DocAgentConfig.parse(plain_section(run.docagent))


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_question_without_an_answer_is_played_and_what_stands_for_it_is_not_shown(recipe, world):
    place = workspace_of(world, 1)
    parsed, sample = asked(recipe, place), own_question(place, " What is the revenue? ")
    assert sample.question == "What is the revenue?"
    playable = recipe_playability(parsed, DocumentStore(place.store))
    assert playable.problem(sample, validate=True) is None
    assert NOT_KNOWN not in str(playable.opening(sample, validate=True))
    assert parsed.judge.kind.value == "exact"
    assert (parsed.store, parsed.retriever.index) == (place.store, place.folder / "index")


def test_several_documents_need_a_system_that_searches_them(world):
    with pytest.raises(UserError, match=r"alden.* 2 "):
        asked(ALDEN, workspace_of(world, 2))
    assert asked(VRAG, workspace_of(world, 2)).env["search"]["scope"] == "corpus"


def roles_after(model, *overrides):
    """Return the roles of MM-Doc-R1 after a model was given those that nobody plays."""
    run = play_config("mm_doc_r1_qwen3_8b", Agent.SYSTEM, overrides)
    played = give_roles(run, model, overrides)
    return played, DocAgentConfig.parse(plain_section(run.docagent)).roles


def test_one_model_plays_all_roles_unless_an_override_names_another():
    model = ModelConfig(base_url="http://a/v1", model="m", api_key_env="KEY")
    played, roles = roles_after(model)
    assert played == [name.value for name in RoleName]
    for role in roles.values():
        assert (role.backend, role.base_url, role.model) == (
            RoleBackend.OPENAI,
            "http://a/v1",
            "m",
        )
        assert role.api_key_env == "KEY"
    assert roles[RoleName.PLANNER].max_tokens == 2048  # the recipe's own
    played, roles = roles_after(
        model,
        "docagent.roles.reader.base_url=http://b/v1",
        "docagent.roles.answer.backend=embedded",
        "docagent.roles.extractor.model=big",
    )
    assert played == ["planner", "extractor"]
    assert roles[RoleName.READER].base_url == "http://b/v1"
    assert roles[RoleName.ANSWER].backend is RoleBackend.EMBEDDED
    assert (roles[RoleName.EXTRACTOR].base_url, roles[RoleName.EXTRACTOR].model) == (
        "http://a/v1",
        "big",
    )


def test_a_model_in_this_process_plays_no_roles_and_most_systems_have_none():
    assert roles_after(ModelConfig(model="folder"))[0] == []
    run = play_config(VRAG, Agent.SYSTEM)
    assert give_roles(run, ModelConfig(base_url="http://a/v1", model="m")) == []
