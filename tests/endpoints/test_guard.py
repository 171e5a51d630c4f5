import asyncio

import httpx2
import pytest

from docagent_rl.endpoints.serving import Guard

JSON = {"Content-Type": "application/json"}


async def echo(scope, receive, send):
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-own", b"kept")]})
    await send({"type": "http.response.body", "body": body})


def ask(method, path, *, host="127.0.0.1:8", cookies=None, policy=None, **options):

    async def one():
        transport = httpx2.ASGITransport(Guard(echo, **(policy or {"largest_body": 100})))
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://x", cookies=cookies
        ) as client:
            headers = {"Host": host, **options.pop("headers", {})}
            return await client.request(method, path, headers=headers, **options)

    return asyncio.run(one())


@pytest.mark.parametrize(
    ("host", "status"),
    [("evil.example", 400), ("evil.example:80", 400), ("127.0.0.1.evil.example", 400),
    ("localhost.x", 400),
     ("", 400), ("[::1", 400), ("u@evil.example", 400), ("0x7f.1", 400), ("localhost", 200),
     ("LOCALHOST:1", 200), ("127.0.0.1", 200), ("10.0.0.5", 200), ("[::1]:99", 200),
     ("search.example:8002", 200)],
)  # fmt: skip
def test_without_a_token_a_page_elsewhere_cannot_ask_under_its_own_name(host, status):
    assert ask("GET", "/", host=host, policy={"names": ["Search.example"]}).status_code == status
    token = {"Authorization": "Bearer t"}
    assert ask("GET", "/", host=host, headers=token, policy={"token": "t"}).status_code == 200


@pytest.mark.parametrize(
    ("kind", "status"),
    [(None, 415), ("text/plain", 415), ("application/x-www-form-urlencoded", 415),
    ("application/jsonp", 415),
     ("application/json", 200), ("Application/JSON; charset=utf-8", 200)],
)  # fmt: skip
def test_a_page_elsewhere_cannot_send_a_body(kind, status):
    reply = ask("POST", "/", content=b"{}", headers={"Content-Type": kind} if kind else {})
    assert (reply.status_code, reply.content == b"{}") == (status, status == 200)


def test_what_is_not_read_goes_with_the_connection():
    large = ask("POST", "/", content=b"x" * 101, headers=JSON)
    unknown = ask(
        "POST", "/", policy={"token": "right", "largest_body": 100}, content=b"{}", headers=JSON
    )
    assert [each.status_code for each in (large, unknown)] == [413, 401]
    assert {each.headers["connection"] for each in (large, unknown)} == {"close"}


def test_a_browser_brings_the_token_once_and_keeps_it_in_a_cookie():
    headers = {"X-Own": "ours", "Cache-Control": "no-store"}
    policy = {"token": "right", "cookie": "c", "headers": headers}
    for path, cookies in (
        ("/", {}),
        ("/?token=wrong", {}),
        ("/", {"c": "wrong"}),
        ("/", {"other": "right"}),
    ):
        assert ask("GET", path, policy=policy, cookies=cookies).status_code == 401
    first = ask("GET", "http://x//evil.example/a%20b?x=1&token=right&y=%26", policy=policy)
    assert (first.status_code, first.headers["location"]) == (303, "/evil.example/a%20b?x=1&y=%26")
    kept = first.headers["set-cookie"].split("; ")
    assert kept == ["c=right", "HttpOnly", "SameSite=Lax", "Path=/"]
    reply = ask("GET", "/", policy=policy, cookies={"c": "right"})
    assert reply.status_code == 200
    assert (reply.headers["x-own"], first.headers["cache-control"]) == ("kept", "no-store")
