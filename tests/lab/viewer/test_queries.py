import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.lab.viewer.queries import condition

TRAJECTORIES = "/api/runs/0/trajectories?"


@pytest.mark.parametrize(
    ("query", "rewards"),
    [
        ("split=train", [1.0, 0.0, 0.5, 0.0]),
        ("step=1:1&step=2&split=train", [1.0, 0.0, 0.5, 0.0]),
        ("system=alden", [0.5]),
        ("system=alden&system=vrag_rl&step=1", [1.0, 0.0]),
        ("status=masked", [0.0]),
        ("mask=infrastructure", [0.0]),
        ("reward=0.5:", [1.0, 0.5, 1.0]),
        ("turns=3:5&split=train", [1.0, 0.0, 0.5]),
        ("invalid=1:&step=1", [1.0, 0.0]),
        ("term:outcome=1:1&split=train", [1.0]),
        ("drift=0.02:0.03&step=1", [1.0, 0.0]),
        ("drift=0.03:", []),
        ("advantage=:-0.25", [0.0]),
        ("term:format=1:&step=1", [1.0, 0.0]),
        ("doc_id=K&question_id=q1&split=val", [1.0]),
        ("kind=Chart&split=val", [1.0]),
        ("q=needle", [0.0]),
        ("q=opened+1990&step=1", [1.0, 0.0]),
        ("q=NEAR(", []),
        ("q=+", [1.0, 0.0, 0.5, 0.0, 1.0]),
        ("outcome=wrong&status=finished", [0.0, 0.5]),
        ("system=x'+OR+'1'='1", []),
    ],
)
def test_a_link_means_these_trajectories(ask, query, rewards):
    found = ask(f"{TRAJECTORIES}{query}&sort=step")
    assert sorted(row["reward"] for row in found["rows"]) == sorted(rewards)
    assert found["total"] == len(rewards)


@pytest.mark.parametrize(
    ("query", "steps"), [("", [2, 2, 2, 1, 1]), ("order=asc", [1, 1, 2, 2, 2])]
)
def test_a_list_begins_with_the_newest_step(ask, query, steps):
    assert [row["step"] for row in ask(f"{TRAJECTORIES}{query}")["rows"]] == steps


@pytest.mark.parametrize(
    "query",
    ["colour=red", "step=x", "reward=a:b", "reward=nan:", "turns=1-2", "right=0", "guessed=2",
    "ids=1;2",
     "limit=-1", "sort=id;drop", "order=up", "offset=1e9", "ids=" + "9" * 40],
)  # fmt: skip
def test_a_link_that_means_nothing_is_refused(ask, query):
    with pytest.raises(UserError, match=query.partition("=")[0]):
        ask(f"{TRAJECTORIES}{query}")


def test_values_are_never_part_of_the_condition():
    text = "'); DROP TABLE trajectories; --"
    found = condition([("system", text), ("q", text), ("term:" + text, "0:1"), ("reward", "0:1")])
    assert "DROP" not in found.sql
    assert text in found.values
