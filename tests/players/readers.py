"""The answer of a turn, read again by the rules of each system; nothing here imports a grammar."""

import re

from docagent_rl.actions.base import StopCause
from docagent_rl.envs.base import AssistantTurn


def tagged_answer(
    turn: AssistantTurn, tags: tuple[str, ...], notes: tuple[str, ...] = ()
) -> str | None:
    """Return the answer of VRAG-RL and UniDoc-RL: the first closed action outside thoughts (and
    notes), if it is an answer.

    Returns:
        Its text; `None` when the turn does not answer.
    """
    if turn.stop is StopCause.CONTROL_TOKEN:
        return None
    text = _without(turn.text, "think", to_end=True)
    for note in notes:
        text = _without(text, note, to_end=False)
    at = 0
    while at < len(text):
        for tag in tags:
            opening, closing = f"<{tag}>", f"</{tag}>"
            end = text.find(closing, at + len(opening))
            if not text.startswith(opening, at) or end < 0:
                continue
            body = text[at + len(opening) : end]
            nested = any(f"<{slash}{other}>" in body for other in tags for slash in ("", "/"))
            return body.strip() if tag == "answer" and not nested else None
        at += 1
    return None


def alden_answer(turn: AssistantTurn) -> str | None:
    """Return the answer of ALDEN: a turn has one thought and one answer with a closed box, every
    tag once, and nothing else.
    """
    if turn.stop is not StopCause.END_OF_TURN:
        return None
    tags = re.findall(r"</?(?:think|search|fetch|answer)>", turn.text)
    whole = re.fullmatch(r"\s*<think>.*</think>\s*<answer>(.*)</answer>\s*", turn.text, re.DOTALL)
    if whole is None or tags != ["<think>", "</think>", "<answer>", "</answer>"]:
        return None
    return last_box(whole[1])


def last_box(text: str) -> str | None:
    """Return the content of the last closed box: try every box from the last on, one character at a
    time.
    """
    for start in reversed([at.end() for at in re.finditer(r"(?<!\\)\\boxed\{", text)]):
        depth, end = 1, start
        while end < len(text) and depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        if not depth:
            return text[start : end - 1]
    return None


def doc_v_star_answer(turn: AssistantTurn) -> str | None:
    """Return the answer of Doc-V*: the only action in the only action block outside thoughts, if it
    is an answer.
    """
    if turn.stop is StopCause.CONTROL_TOKEN:
        return None
    text = _without(turn.text, "think", to_end=True)
    found = re.findall(r"<action>(.*?)</action>", text, re.DOTALL)
    if len(found) != 1:
        return None
    inside = re.fullmatch(r"[^<]*<answer>(.*?)</answer>(.*)", found[0].strip(), re.DOTALL)
    return inside[1].strip() if inside else None


def doc_v_star_form(turn: AssistantTurn, pages: int, *, first: bool) -> bool:
    """Return whether a turn of Doc-V* has no fault by its grammar; page numbers are those of the
    document.
    """
    whole = re.fullmatch(
        r"\s*<think>(.*?)</think>\s*<action>(.*)</action>\s*", turn.text, re.DOTALL
    )
    if whole is None or turn.stop is not StopCause.END_OF_TURN:
        return False
    blocks = r"\s*<analysis>(.*?)</analysis>\s*<{0}>(.*?)</{0}>\s*<summary>(.*?)</summary>\s*"
    thought = re.fullmatch(
        blocks.format("plan" if first else "relevant_pages"), whole[1], re.DOTALL
    )
    act = re.fullmatch(r"\s*<(retrieval_page|fetch_page|answer)>(.*?)</\1>\s*", whole[2], re.DOTALL)
    if thought is None or act is None or not act[2].strip():
        return False
    if re.search(r"</?(analysis|plan|relevant_pages|summary)>", "".join(thought.groups())):
        return False
    if re.search(r"</?(retrieval_page|fetch_page|answer|action|think)>", act[2]):
        return False
    if not (thought[1].strip() and thought[3].strip() and (thought[2].strip() or not first)):
        return False
    lists = ([] if first else [thought[2]]) + ([act[2]] if act[1] == "fetch_page" else [])
    return all(_are_pages(text, pages) for text in lists)


def _are_pages(text: str, pages: int) -> bool:
    text = text.strip()
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    return all(
        re.fullmatch("0*[1-9][0-9]{0,8}", n) and int(n) <= pages
        for n in re.split(r"[,\s]+", inner)
        if n
    )


def _without(text: str, tag: str, *, to_end: bool) -> str:
    """Blank out the blocks of a tag; a block that is never closed is blanked to the end, or not at
    all.
    """
    while f"<{tag}>" in text:
        start = text.index(f"<{tag}>")
        end = text.find(f"</{tag}>", start)
        if end < 0:
            return text[:start] + " " * (len(text) - start) if to_end else text
        end += len(f"</{tag}>")
        text = text[:start] + " " * (end - start) + text[end:]
    return text
