"""Servers get the prompts that agent loops have, whatever they keep of them and wherever they are
sent.
"""

import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.training.serving.prompts import (
    LONG,
    PromptSender,
    PromptStore,
    SentPrompt,
    token_array,
)

PLACEHOLDER = 151_655
tokens = st.lists(
    st.lists(st.integers(0, 9) | st.just(PLACEHOLDER), max_size=4)
    | st.integers(1, 40).map(lambda count: [PLACEHOLDER] * count),
    max_size=6,
).map(lambda parts: [token for part in parts for token in part])


@given(ids=tokens, data=st.data())
def test_a_sent_prompt_is_the_prompt(ids, data):
    whole = token_array(ids)
    kept = data.draw(st.integers(0, len(ids)))
    sent = pickle.loads(pickle.dumps(SentPrompt.of("a", whole, kept)))
    assert sent.rest.dtype == np.int32
    assert sent.rest.tolist() == ids[kept:]


def test_placeholders_and_known_tokens_take_no_room():
    image = [PLACEHOLDER] * 800
    first = [1, 2, *image, 3]
    sender = PromptSender("a")
    sent = sender.shorten(first, "server")
    assert (len(sent.ids), sent.runs) == (4 * 4, ((2, 800),))
    assert SentPrompt.of("a", token_array([7] * (LONG - 1)), 0).runs == ()

    sender.record(first, [4, 5], "server")
    second = [*first, 4, 5, 6, *image]
    sent = sender.shorten(second, "server")
    assert (sent.kept, len(sent.ids), sent.runs) == (len(first) + 2, 2 * 4, ((1, 800),))
    assert len(pickle.dumps(sent)) < 300 < len(pickle.dumps(second)) / 10
    # nothing is left out for a server that the trajectory moves to
    assert sender.shorten(second, "other").kept == 0


def keep(store, name, ids, reply):
    """Keep what a server keeps of a request."""
    store.keep(name, ids)
    store.add_reply(name, ids, reply)


def test_a_store_keeps_the_prompts_used_last_and_none_of_those_that_left():
    store = PromptStore(room=2 * 4 * 4)
    ids = token_array([1, 2, 3])
    for name in ("a", "b"):
        keep(store, name, ids, [4])
    digests = {name: SentPrompt.of(name, ids, 3) for name in ("a", "b", "c")}
    assert store.find(digests["a"]).tolist() == [1, 2, 3]
    keep(store, "c", ids, [4])
    found = {name: store.find(sent) is not None for name, sent in digests.items()}
    assert found == {"a": True, "b": False, "c": True}
    store.drop("a")
    store.drop("a")
    assert store.find(digests["a"]) is None
    keep(store, "long", token_array(range(9)), [])  # longer than the room
    assert store.find(digests["c"]) is not None


def test_a_trajectory_that_leaves_while_a_server_answers_leaves_nothing_behind():
    store = PromptStore()
    ids = token_array([1, 2, 3])
    store.keep("a", ids)
    assert store.find(SentPrompt.of("a", ids, 3)) is not None
    store.drop("a")
    store.add_reply("a", ids, [4])
    assert store.find(SentPrompt.of("a", ids, 3)) is None


def test_other_tokens_under_the_same_name_are_not_taken_for_these():
    store = PromptStore()
    store.keep("a", token_array([1, 2, 3]))
    for other in ([1, 2, 4], [1, 2, 3, 4]):
        sent = SentPrompt.of("a", token_array([*other, 9]), len(other))
        assert store.find(sent) is None


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["same", "same", "same", "restarted", "left"]),
            st.integers(0, 1),
            st.integers(0, 1),
            st.sampled_from(["turn", "turn", "edited", "context"]),
            tokens,
            tokens,
        ),
        max_size=12,
    )
)
def test_prompts_arrive_whole_at_servers_that_come_and_go(events):
    """Two trajectories, each with contexts that follow one another, at two servers whose room is
    smaller than their prompts.
    """
    stores = {0: PromptStore(300), 1: PromptStore(300)}
    senders = {0: PromptSender("a"), 1: PromptSender("b")}
    prompts = {0: [1], 1: [2]}
    for event, place, who, kind, observation, reply in events:
        if event == "restarted":
            stores[place] = PromptStore(300)
        if event == "left":
            stores[place].drop("ab"[who])
        prompts[who] = [who, *observation] if kind == "context" else prompts[who] + observation
        ids = list(prompts[who])
        name = f"server {place}"
        found = stores[place].find(senders[who].shorten(ids, name))
        if found is None:
            found = stores[place].find(senders[who].whole(ids))
        assert found.tolist() == prompts[who]
        keep(stores[place], "ab"[who], found, reply)
        senders[who].record(ids, reply, name)
        prompts[who] = prompts[who] + (reply[::-1] if kind == "edited" else reply)
