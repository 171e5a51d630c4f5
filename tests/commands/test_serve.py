from __future__ import annotations

import signal
import threading

import httpx2
import pytest

from docagent_rl.commands.serve import serve_command
from docagent_rl.errors import UserError
from docagent_rl.retrieval.bm25 import BM25Retriever
from tests.retrieval.service.conftest import TOKEN, running


@pytest.fixture(scope="module")
def index(world):
    return world.root / "index"


@pytest.mark.slow
def test_serves_on_loopback_with_a_token_until_it_is_asked_to_end(world, index):
    query = world.records[0].question
    with running(world.store, index, "--token-env", "SEARCH_TOKEN") as (process, url):
        assert url.startswith("http://127.0.0.1:")
        assert httpx2.post(f"{url}/v1/search", json={"queries": [query]}).status_code == 401
        headers = {"Authorization": f"Bearer {TOKEN}"}
        found = httpx2.post(f"{url}/v1/search", json={"queries": [query], "top_k": 2}, headers=headers).json()
        hits = BM25Retriever.load(index).search([query], top_k=2)[0]
        assert found["results"][0] == [[hit.ref.doc_id, hit.ref.page, hit.score] for hit in hits]
        asked = threading.Thread(target=httpx2.get, args=(f"{url}/v1/health",))
        asked.start()
        asked.join()
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) in (0, -signal.SIGTERM)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"api": "native,soap"}, "--api soap: .*native, vrag_rl"),
        ({"api": ","}, "--api"),
        ({"token_env": "NO_SUCH_VARIABLE_IS_SET"}, "--token-env"),
        ({"host": "256.1.1.1"}, "--host 256.1.1.1 --port 0"),
        ({"kind": "telepathy"}, "kind=telepathy"),
    ],
)
def test_what_cannot_be_served_is_one_error(world, index, options, message):
    with pytest.raises(UserError, match=message):
        serve_command(
            **{"store": world.store.path, "index": index, "settings": None, "text_index": None, "port": 0}
            | {"kind": "bm25", "host": "127.0.0.1", "token_env": None, "api": "native", "max_waiting": 8}
            | {"threads": 1, "deadline_s": 1.0, "image_folder": None, **options}
        )


def test_settings_come_from_a_file_too(world, index, tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text("kind: bm25\nbackend: http\nservice: {url: 'http://elsewhere'}\n")
    with pytest.raises(UserError, match="backend"):
        serve_command(store=world.store.path, index=index, settings=file)
    file.write_text("kind: [1")
    with pytest.raises(UserError, match=r"settings\.yaml"):
        serve_command(store=world.store.path, index=index, settings=file)
