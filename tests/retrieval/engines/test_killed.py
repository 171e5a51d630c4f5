"""Builds that are killed in any phase, in any engine, resume and end with the same index."""

import signal

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.retrieval.engines import build as building
from docagent_rl.retrieval.engines import lance, qdrant
from docagent_rl.retrieval.index_files import HEADER
from docagent_rl.retrieval.indexes import open_index
from tests.retrieval.engines.killed import (
    PLACES,
    Killed,
    build_here,
    build_there,
    check_whole,
    use_small_parts,
)

LANCE, QDRANT = "LanceCollection", "QdrantCollection"
MOMENTS = [
    Killed("embedded", "_Build.keep", 5),
    Killed("embedded", "_Build.publish"),
    Killed("embedded", "_Build._banks", 2),
    Killed("embedded", "IndexFiles.write_header"),
    Killed("embedded", "IndexFiles.write_header", behind=True),
    Killed("lancedb", f"{LANCE}._partitions"),  # within `finish`, between its two indexes
]
for engine, collection in (("lancedb", LANCE), ("qdrant", QDRANT)):
    for name, number in (("create", 1), ("add", 2), ("finish", 1)):
        MOMENTS += [
            Killed(engine, f"{collection}.{name}", number, behind) for behind in (False, True)
        ]
    # of a header without documents, with some, with all, and of the last one
    MOMENTS += [Killed(engine, "IndexFiles.write_header", number) for number in (1, 2, 4)]
UPDATES = [
    Killed(engine, f"{collection}.{name}", 1, behind)
    for engine, collection in (("lancedb", LANCE), ("qdrant", QDRANT))
    for name in ("remove", "finish")
    for behind in (False, True)
]


@pytest.fixture(autouse=True)
def _small(tmp_path, monkeypatch):
    """Make the changes of the process that dies in this process, too."""
    for module, name in (
        (building, "_NUMBERS"),
        (building, "_HEADER_SHARE"),
        (lance, "INDEXED_FROM"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name))
    monkeypatch.setattr(qdrant, "connect_qdrant", qdrant.connect_qdrant)
    use_small_parts(tmp_path / "index")


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS, ids=str)
def test_a_build_that_was_killed_is_continued(moment, corpus, tmp_path):
    folder = tmp_path / "index"
    assert build_there(moment.engine, corpus, folder, moment) == -signal.SIGKILL
    if (folder / HEADER).is_file() and PLACES[moment.engine]:
        with pytest.raises(UserError, match=r"index build|build it again"):
            open_index(folder).check(corpus)
    build_here(moment.engine, corpus, folder)
    check_whole(folder, corpus, moment.engine)


@pytest.mark.slow
@pytest.mark.parametrize("moment", UPDATES, ids=str)
def test_an_update_that_was_killed_is_continued(moment, corpus, make_store, tmp_path):
    folder = tmp_path / "index"
    texts = {doc_id: ["gold of the cat"] * 3 for doc_id in ("doc-03", "doc-05", "gone")}
    assert build_there(moment.engine, make_store(tmp_path / "before", texts), folder) == 0
    assert build_there(moment.engine, corpus, folder, moment) == -signal.SIGKILL
    build_here(moment.engine, corpus, folder)
    check_whole(folder, corpus, moment.engine)


@pytest.mark.parametrize("engine", ["lancedb", "qdrant"])
def test_a_replacement_that_was_killed_leaves_no_vectors_of_another_length(
    engine, corpus, tmp_path
):
    folder = tmp_path / "index"
    assert build_there(engine, corpus, folder) == 0
    moment = Killed(engine, f"{LANCE if engine == 'lancedb' else QDRANT}.create")
    assert build_there(engine, corpus, folder, moment, dim=8) == -signal.SIGKILL
    build_here(engine, corpus, folder, dim=8)
    check_whole(folder, corpus, engine, dim=8)
