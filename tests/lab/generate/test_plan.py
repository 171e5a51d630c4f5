import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from docagent_rl.base.errors import UserError
from docagent_rl.lab.generate.config import EvidenceKind, GenerateConfig, KindConfig, PageView
from docagent_rl.lab.generate.pages import DocumentPages
from docagent_rl.lab.generate.plan import plan_document

KINDS = st.lists(
    st.fixed_dictionaries(
        {"kind": st.sampled_from(EvidenceKind), "per_document": st.integers(0, 9)}
    ).map(lambda fields: KindConfig(**fields)),
    min_size=1,
    max_size=4,
)


@settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25
)
@given(KINDS, st.integers(0, 5), st.sampled_from(["alpha", "beta"]))
def test_a_plan_is_decided_by_seed_document_and_kind(reports, kinds, seed, doc_id):
    config = GenerateConfig(kinds=kinds, seed=seed)
    known = DocumentPages(reports.document(doc_id), config)
    slots, gaps = plan_document(known, config)
    again, _ = plan_document(DocumentPages(reports.document(doc_id), config), config)
    assert slots == again
    assert len({slot.slot_id for slot in slots}) == len(slots)
    asked = sum(kind.per_document for kind in kinds if kind.kind not in {gap.kind for gap in gaps})
    assert len(slots) == asked
    for slot in slots:
        assert set(slot.pages) <= set(known.usable)
        assert list(slot.pages) == sorted(set(slot.pages))
        assert len(slot.pages) == {EvidenceKind.MULTI_PAGE: 2, EvidenceKind.UNANSWERABLE: 3}.get(
            slot.kind, 1
        )
    # what a kind asks does not depend on what else is asked
    alone = GenerateConfig(kinds=kinds[:1], seed=seed)
    assert plan_document(known, alone)[0] == slots[: len(plan_document(known, alone)[0])]


def test_pages_are_asked_about_in_turn(reports):
    config = GenerateConfig(kinds=[KindConfig(kind=EvidenceKind.SINGLE_PAGE, per_document=13)])
    slots, _ = plan_document(DocumentPages(reports.document("alpha"), config), config)
    pages = [slot.pages[0] for slot in slots]
    assert sorted(pages[:6]) == sorted(pages[6:12]) == [1, 2, 3, 4, 5, 6]
    assert [slot.sample for slot in slots] == [0] * 6 + [1] * 6 + [2]


def test_tables_are_found_by_their_captions(reports, sheets):
    config = GenerateConfig(
        kinds=[KindConfig(kind=EvidenceKind.TABLE), KindConfig(kind=EvidenceKind.CHART)]
    )
    slots, gaps = plan_document(DocumentPages(reports.document("beta"), config), config)
    assert {slot.pages for slot in slots} == {(2,)}
    assert [(gap.kind, "--view image" in gap.why) for gap in gaps] == [(EvidenceKind.CHART, True)]
    seen = GenerateConfig(kinds=[KindConfig(kind=EvidenceKind.CHART)], view=PageView.IMAGE)
    slots, gaps = plan_document(DocumentPages(sheets.document("sheets"), seen), seen)
    assert (len(slots), gaps) == (2, [])
    # a page that cannot be read may hold the answer
    config = GenerateConfig(kinds=[KindConfig(kind=EvidenceKind.UNANSWERABLE)])
    known = DocumentPages(sheets.document("sheets"), config)
    assert (known.unseen, plan_document(known, config)[0]) == ((1, 2, 3, 4), [])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("kinds: [{kind: poem}]", "kinds.0.kind"),
        ("kinds: [{kind: multi_page, pages: 1}]", "pages"),
        ("filter: {}", "filter"),
        ("- kinds", "g.yaml"),
    ],
)
def test_a_wrong_configuration_is_told(tmp_path, text, told):
    (tmp_path / "g.yaml").write_text(text)
    with pytest.raises(UserError) as caught:
        GenerateConfig.load(tmp_path / "g.yaml", {})
    assert told in str(caught.value)
