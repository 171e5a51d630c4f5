import socket

import pytest

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.endpoints.listening import require_listening


@pytest.fixture
def port():
    """Return a port of this machine at which something listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_an_address_at_which_something_listens_is_accepted_without_a_request(port):
    require_listening(f"http://127.0.0.1:{port}/v1", "--base-url")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1:1/v1", "--base-url=http://127.0.0.1:1/v1: nothing listens there"),
        ("http://user:word@127.0.0.1:1/v1?key=word", "--base-url=http://127.0.0.1:1/v1: nothing"),
    ],
)
def test_an_address_at_which_nothing_listens_is_named_without_its_secrets(url, said):
    with pytest.raises(InfrastructureError) as refused:
        require_listening(url, "--base-url")
    assert str(refused.value).startswith(said)
    assert "start the server" in str(refused.value)
    assert "word" not in str(refused.value)


def test_what_is_not_an_address_is_refused():
    with pytest.raises(UserError, match=r"--base-url=127\.0\.0\.1:8000: expected an address"):
        require_listening("127.0.0.1:8000", "--base-url")


def test_an_address_behind_a_proxy_is_left_to_the_request(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    require_listening("http://model.invalid/v1", "--base-url")
