"""Services that nobody chose, and rankings that are asked for and missing."""

from __future__ import annotations

import pytest

from docagent_rl.checks.preflight import check, check_statically
from docagent_rl.checks.recipe_check import composed
from docagent_rl.checks.recipe_list import recipe_names
from docagent_rl.errors import UserError

ROLES = ("planner", "reader", "answer", "extractor")
HYBRID = "alden_hybrid_qwen2_5_vl_7b"
MM_DOC = [name for name in recipe_names() if name.startswith("mm_doc_r1")]
# small enough for any machine, and yet no CPU profile: what is not chosen is not silently a rule
BARE = ["+profile=cpu", "docagent.profile=null", "docagent.auto_demo=false", "docagent.env_cpu={}"]
WHOLE = [
    "data.max_prompt_length=9000",
    "data.max_response_length=40000",
    "actor_rollout_ref.rollout.max_model_len=50000",
]


def bare(recipe, *overrides):
    return composed(recipe, [*BARE, *WHOLE, "docagent.workspace=/nowhere", *overrides])


@pytest.mark.parametrize("recipe", MM_DOC)
def test_roles_that_nobody_chose_are_refused(recipe):
    with pytest.raises(
        UserError, match="planner, reader, answer, extractor, and no endpoint is set"
    ) as caught:
        check(bare(recipe))
    for role in ROLES:
        assert f"docagent.roles.{role}.base_url=" in str(caught.value)
        assert f"docagent.roles.{role}.backend=embedded" in str(caught.value)


def test_only_missing_roles_are_named():
    config = bare(
        MM_DOC[0],
        "docagent.roles.reader.backend=embedded",
        "docagent.roles.planner.base_url=http://127.0.0.1:9/v1",
        "docagent.roles.answer.base_url=http://127.0.0.1:9/v1",
    )
    with pytest.raises(UserError, match="models play extractor, and no endpoint") as caught:
        check(config)
    assert "docagent.roles.reader" not in str(caught.value)
    models = check_statically(config).roles
    assert models["planner"].backend.value == models["answer"].backend.value == "openai"


def test_rules_that_were_chosen_are_taken():
    """The next check complains, about the store that is not there."""
    chosen = [f"docagent.roles.{role}.backend=embedded" for role in ROLES]
    with pytest.raises(UserError, match="/nowhere"):
        check(bare(MM_DOC[0], *chosen))
    with pytest.raises(UserError, match="/nowhere"):
        check(
            composed(MM_DOC[0], ["+profile=cpu", "docagent.auto_demo=false", "docagent.workspace=/nowhere"])
        )


@pytest.mark.parametrize("recipe", ["vrag_rl_qwen2_5_vl_7b", "unidoc_rl_qwen2_5_vl_7b"])
def test_a_judge_that_nobody_chose_is_refused(recipe):
    with pytest.raises(UserError, match=r"no judge is chosen: set docagent\.judge\.kind=openai"):
        check(bare(recipe, "docagent.judge.kind=null"))
    with pytest.raises(UserError, match="/nowhere"):
        check(bare(recipe, "docagent.judge.kind=rule"))


def test_a_system_without_a_judge_needs_none():
    assert check_statically(bare("doc_v_star_qwen2_5_vl_7b", "docagent.judge.kind=null")).judge.kind is None
    with pytest.raises(UserError, match="/nowhere"):
        check(bare("doc_v_star_qwen2_5_vl_7b", "docagent.judge.kind=null"))


@pytest.mark.parametrize("profile", [[], ["+profile=cpu"]])
def test_two_rankings_need_two_indexes(profile):
    words = [*profile, "+retriever=bm25"]
    with pytest.raises(UserError, match=r"two rankings.*one retriever.*docagent\.text_retriever"):
        check_statically(composed(HYBRID, [*words, "docagent.text_retriever=null"]))
    same = "docagent.text_retriever={kind: bm25, model: null, index: '${docagent.workspace}/index'}"
    with pytest.raises(UserError, match=r"both bm25 over .*index.*the same pages twice"):
        check_statically(composed(HYBRID, [*words, same]))
    second = same.replace("/index", "/text_index")
    assert check_statically(composed(HYBRID, [*words, second])).text_retriever.index.name == "text_index"


def test_a_second_ranking_that_nobody_asks_for_is_refused():
    second = "docagent.text_retriever={kind: bm25, model: null, index: /some/index}"
    shared = "docagent.env.search.text_ranking=shared"
    for recipe, more in (("alden_qwen2_5_vl_7b", []), (HYBRID, [shared]), ("vrag_rl_qwen2_5_vl_7b", [])):
        with pytest.raises(UserError, match=r"docagent\.text_retriever is set, but (alden|vrag_rl) asks"):
            check_statically(composed(recipe, [second, *more]))


@pytest.mark.parametrize(
    ("profile", "images", "texts"),
    [([], "vdr-2b-v1", "e5-large-v2"), (["+profile=cpu"], None, "minilm")],
)
def test_the_hybrid_ranks_images_and_texts_apart(profile, images, texts):
    parsed = check_statically(composed(HYBRID, profile))
    assert parsed.env["search"]["text_ranking"] == "own"
    assert (parsed.retriever.model, parsed.text_retriever.model) == (images, texts)


def test_one_ranking_may_be_shown_twice():
    once = ["docagent.env.search.text_ranking=shared", "docagent.text_retriever=null"]
    assert check_statically(composed(HYBRID, once)).text_retriever is None


def asked_at(api, recipe="vrag_rl_qwen2_5_vl_7b", *overrides):
    server = ["docagent.retriever.backend=http", "docagent.retriever.service.url=http://search.example:8002"]
    return check_statically(composed(recipe, [*server, f"docagent.retriever.service.api={api}", *overrides]))


def test_a_server_of_one_document_is_not_asked_for_the_corpus():
    with pytest.raises(UserError, match=r"docagent\.retriever\.service\.api=alden: .*scope is corpus"):
        asked_at("alden")
    asked_at("alden", "alden_qwen2_5_vl_7b")


def test_a_server_of_ten_pages_is_not_asked_for_more(caplog):
    asked_at("vrag_rl")
    assert "all documents" not in caplog.text
    with pytest.raises(UserError, match=r"gives 10 pages a query, and docagent\.env\.search\.top_k is 11"):
        asked_at("vrag_rl", "vrag_rl_qwen2_5_vl_7b", "docagent.env.search.top_k=11")
    asked_at("vrag_rl_faiss", "alden_qwen2_5_vl_7b")
    assert "vrag_rl_faiss: such a server searches all documents" in caplog.text
