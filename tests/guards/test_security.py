"""Nothing is executed, let in or disclosed without being asked for (docs/security.md)."""

import http.client
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.parse
from pathlib import Path

import numpy as np
import pytest
from omegaconf import OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import seal
from docagent_rl.base.prompts import load_prompt
from docagent_rl.base.text import visible
from docagent_rl.checks.environment import resolve_environment
from docagent_rl.commands.view import view_command
from docagent_rl.documents import PageRef
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.store import DocumentStore
from docagent_rl.envs.base import AssistantTurn
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.rewards.judge_client import JUDGE_PROMPT
from docagent_rl.rewards.literals import safe_literal
from docagent_rl.samples.sample import Sample, Split
from docagent_rl.systems import get_system
from docagent_rl.training.loopback import ADDRESS_KEY, RAY, VARIABLES, keep_to_loopback
from tests.commands.conftest import called
from tests.viewer_runs import run_folder, trajectory

TOKEN = "s3cret-token-of-the-guards"
JSON = {"Content-Type": "application/json"}


class Process:
    """A server of this package in a process of its own."""

    def __init__(self, *command: object) -> None:
        environment = {**os.environ, "SEARCH_TOKEN": TOKEN}
        line = [sys.executable, "-m", "docagent_rl.cli", *map(str, command)]
        self.process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=environment)
        self.url = next(
            word for word in self.process.stdout.readline().split() if word.startswith("http://")
        )
        self.host = urllib.parse.urlsplit(self.url)

    def ask(self, path, method="GET", *, body=None, **headers):
        """Return the status, headers and body of a reply; `headers` replace those of a program."""
        connection = http.client.HTTPConnection(self.host.hostname, self.host.port, timeout=60)
        connection.putrequest(method, path, skip_host="Host" in headers)
        sent = {**headers, **({} if body is None else {"Content-Length": str(len(body))})}
        for name, value in sent.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders(body)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, dict(answer.getheaders()), content

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="module")
def index(store, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "index"
    BM25Retriever.build(store).save(folder)
    return folder


@pytest.fixture(scope="module")
def search_server(store, index):
    server = Process("index", "serve", "--store", store.path, "--index", index)
    yield server
    server.end()


@pytest.fixture(scope="module")
def run(store, tmp_path_factory):
    hostile = trajectory(store, said="</script><script>alert(1)</script>\x1b[2J[/b]")
    return run_folder(tmp_path_factory.mktemp("viewed") / "run", [hostile])


@pytest.fixture(scope="module")
def viewer(run, store):
    server = Process("view", run, "--store", store.path, "--no-open")
    yield server
    server.end()


@pytest.fixture(scope="module")
def pass_of(viewer):
    """Return the header of a client that has opened the printed address."""
    (token,) = urllib.parse.parse_qs(viewer.host.query)["token"]
    return {"Authorization": f"Bearer {token}"}


SEARCH = b'{"queries": ["everypage"], "top_k": 1}'


def test_servers_listen_on_loopback_unless_they_are_told_otherwise(search_server, viewer):
    for server in (search_server, viewer):
        assert server.host.hostname == "127.0.0.1"
        outside = socket.gethostbyname(socket.gethostname())
        if not outside.startswith("127."):
            with (
                pytest.raises(OSError),
                socket.create_connection((outside, server.host.port), timeout=5),
            ):
                pass


def test_a_web_page_elsewhere_reaches_no_search_server_under_its_own_name(search_server):
    path = "/v1/search"
    for host, status in (
        ("evil.example", 400),
        ("127.0.0.1.evil.example", 400),
        ("localhost", 200),
    ):
        assert search_server.ask(path, "POST", body=SEARCH, Host=host, **JSON)[0] == status


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded"])
def test_a_web_page_elsewhere_cannot_send_a_body(search_server, kind):
    assert search_server.ask("/v1/search", "POST", body=SEARCH, **{"Content-Type": kind})[0] == 415


def test_a_request_that_is_too_large_is_refused_before_it_is_read(search_server):
    status, headers, _ = search_server.ask("/v1/search", "POST", body=b"x" * (17 << 20), **JSON)
    assert (status, headers.get("connection")) == (413, "close")
    with pytest.raises((ConnectionError, AssertionError, http.client.HTTPException)):
        assert search_server.ask("/v1/health", X_More="x" * 200_000)[0] != 400


def test_a_search_server_with_a_token_answers_nobody_else(store, index):
    server = Process(
        "index", "serve", "--store", store.path, "--index", index, "--token-env", "SEARCH_TOKEN"
    )
    try:
        for header, status in ((None, 401), (f"Bearer {TOKEN}x", 401), (f"Bearer {TOKEN}", 200)):
            headers = {} if header is None else {"Authorization": header}
            assert server.ask("/v1/search", "POST", body=SEARCH, **JSON, **headers)[0] == status
        assert server.ask("/v1/health")[0] == 200
    finally:
        server.end()


def test_only_who_has_the_address_sees_a_run(viewer, pass_of):
    for path in ("/", "/app.js", "/api/runs", "/api/runs/0/trajectories"):
        assert viewer.ask(path)[0] == 401
        assert viewer.ask(path, Authorization="Bearer wrong")[0] == 401
        assert viewer.ask(path, **pass_of)[0] == 200
    for method in ("POST", "PUT", "DELETE"):
        assert viewer.ask("/api/runs", method, **pass_of)[0] == 405


def test_a_browser_keeps_the_token_where_no_script_reads_it(viewer):
    status, headers, _ = viewer.ask(f"/?{viewer.host.query}")
    assert (status, headers["location"]) == (303, "/")
    assert "HttpOnly; SameSite=Lax" in headers["set-cookie"]


@pytest.mark.parametrize("path", ["/../view.sqlite", "/..%2f..%2fetc/passwd", "//etc/passwd",
"/%2e%2e/x",
                                  "/api/runs/0/pages/..%2f..%2f..%2fetc%2fpasswd/1"])  # fmt: skip
def test_no_path_leads_out_of_a_run(viewer, pass_of, path):
    status, _, body = viewer.ask(path, **pass_of)
    assert status in (400, 404)
    assert b"root:" not in body


def test_the_viewers_page_runs_its_own_script_alone(viewer, pass_of):
    _, headers, _ = viewer.ask("/", **pass_of)
    policy = set(headers["content-security-policy"].split("; "))
    assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} <= policy
    assert not any("unsafe" in each for each in policy)
    assert "access-control-allow-origin" not in headers


def test_text_of_a_model_ends_no_script_of_an_exported_page(run, tmp_path):
    called(view_command, run, "--export", tmp_path / "x.html", "--query", "step=1")
    page = (tmp_path / "x.html").read_text()
    assert "alert(1)" in page
    assert "<script>alert(1)" not in page
    assert "\x1b" not in page


@pytest.mark.parametrize(
    "text",
    ["__import__('os').system('touch hacked')", "open('hacked', 'w')", "'a'.upper()", "9 ** 999"],
)
async def test_text_of_a_model_is_never_evaluated(
    services, make_sample, tmp_path, monkeypatch, text
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError):
        safe_literal(text)
    env = get_system("vrag_rl").make_env({"variant": "paper"}, services, validate=False)
    await env.reset(make_sample())
    await env.step(AssistantTurn("<search>everypage</search>"))
    result = await env.step(AssistantTurn(f"<bbox>{text}</bbox>"))
    assert (result.record.valid, list(tmp_path.iterdir())) == (False, [])


def test_nothing_from_outside_is_unpickled(index, tmp_path, store):
    """The index has arrays that a stranger could send."""

    class Evil:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "hacked",))

    copy = Path(shutil.copytree(index, tmp_path / "index"))
    arrays = list(copy.rglob("*.npy"))
    for file in arrays:
        np.save(file, np.array([Evil()], dtype=object), allow_pickle=True)
    assert arrays
    with pytest.raises(UserError):
        BM25Retriever.load(copy).search(["everypage"], top_k=1)
    assert not (tmp_path / "hacked").exists()


def test_a_prompt_file_cannot_reach_into_python(tmp_path):
    (tmp_path / "p.yaml").write_text(
        'user: "{{ question.__class__.__mro__ }} {{ references }} {{ prediction }}"'
    )
    prompt = load_prompt(str(tmp_path / "p.yaml"), JUDGE_PROMPT)
    with pytest.raises(Exception, match=r"unsafe|__class__"):
        prompt.render("user", question="q", references=["r"], prediction="p")


def test_a_text_that_is_filled_into_a_prompt_is_no_template():
    prompt = load_prompt("judge", JUDGE_PROMPT)
    said = prompt.render("user", question="{{ 7 * 7 }}", references=["{% for %}"], prediction="p")
    assert "{{ 7 * 7 }}" in said
    assert "{% for %}" in said


@pytest.mark.parametrize("variable", ["JUDGE_API_KEY", "HF_TOKEN", "DB_PASSWORD", "PLAIN"])
def test_no_secret_of_the_environment_becomes_a_value_that_is_saved(monkeypatch, variable):
    monkeypatch.setenv(variable, "s3cret")
    services = {"judge": {"api_key_env": "PLAIN"}}
    with pytest.raises(UserError, match=variable) as refused:
        resolve_environment(
            OmegaConf.create({"docagent": services, "x": f"${{oc.env:{variable}}}"})
        )
    assert "s3cret" not in str(refused.value)


def test_a_run_on_one_machine_listens_on_loopback(recipe, monkeypatch, tmp_path):
    for name in (*VARIABLES, "RAY_ADDRESS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    config = recipe("vrag_rl_qwen2_5_vl_7b")
    assert keep_to_loopback(config)
    assert OmegaConf.select(config, f"{RAY}.{ADDRESS_KEY}") == "127.0.0.1"
    assert config.ray_kwargs.ray_init.runtime_env.env_vars.VLLM_HOST_IP == "127.0.0.1"


@pytest.mark.parametrize("bad", ["a\nb", "a\x1b[2Jb", "a\u202eb", "a\u2066b"])
def test_no_id_acts_on_a_terminal_or_turns_text(bad):
    with pytest.raises(UserError, match="rename it"):
        PageRef(bad, 1)
    with pytest.raises(UserError, match="question_id"):
        Sample(bad, "made", Split.TRAIN, "d", "What?", ("x",))
    assert visible(bad).replace("\n", "").isprintable()


def test_a_manifest_cannot_lead_out_of_its_store(store, tmp_path):
    copy = shutil.copytree(store.path, tmp_path / "store")
    path = StoreLayout(copy).manifest("K")
    digest = store.page(PageRef("K", 1)).image_hash
    body = re.sub(r',\s*"checksum": "[0-9a-f]{64}"\s*\}', "}", path.read_text())
    path.write_text(seal(body.replace(digest, "../../../../etc/passwd")))
    with pytest.raises(UserError, match="passwd' is not a SHA-256"):
        DocumentStore(copy).document("K").page(1).image()
