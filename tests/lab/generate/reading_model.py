"""A model behind a real server that computes its replies from its requests.

It writes cloze questions about sentences of the pages that it is shown, and answers them by looking
for the sentence on the pages that it is shown. What else it does, it does as the text of the
request decides: it replies in no JSON (once, or always), declines, asks what is on no page, what is
on every page, what everybody knows, what nobody could look for, or the same twice.
"""

import base64
import hashlib
import io
import json
import math
import re
from pathlib import Path

from PIL import Image
from reportlab.pdfgen.canvas import Canvas

from tests.chat_server import completion
from tests.lab.agents.stage import texts_of

_FENCED = re.compile(r"----- begin (\w+) -----\n(.*?)\n----- end \1 -----", re.DOTALL)
_PAGE = re.compile(
    r"Page (\d+) of \d+:\n----- begin (\w+) -----\n(.*?)\n----- end \2 -----", re.DOTALL
)
_CLOZE = re.compile(r'ends the sentence "(.+?)"')
BAD = "babble once,babble,declines,vague,known,wrong,shown,everywhere,twice,foreign"
WAYS = (*("good",) * 6, *BAD.split(","))
COLOURS = {
    "red": (200, 20, 20),
    "green": (20, 160, 20),
    "blue": (20, 20, 200),
    "white": (250, 250, 250),
}


def reply_to(request: dict) -> dict:
    """Return the model's reply."""
    messages = request["messages"]
    if len(messages) == 1:
        return completion("ready")
    system, said = _text(messages[0]), "\n".join(_text(message) for message in messages[1:])
    again = len(messages) > 2
    tokens = (len(system + said) // 4, 20)
    return completion(
        _reply(system, said, messages[1]["content"], again, request.get("seed")), usage=tokens
    )


def _reply(system: str, said: str, content, again: bool, seed: int | None) -> str:
    luck = int(
        hashlib.sha256(f"{said.split('could not be read')[0][:4000]}{seed}".encode()).hexdigest(),
        16,
    )
    if system.startswith("You write questions"):
        return _write(said, content, luck, again)
    question = (_FENCED.search(said) or ["", "", ""])[2]
    if system.startswith("You grade answers"):
        _, reference, prediction = (found[2] for found in _FENCED.finditer(said))
        return f"<judge>{reference.casefold().strip('.') in prediction.casefold()}</judge>"
    if system.startswith("You answer questions about documents"):
        if luck % 5 == 0 and not again:
            return "I cannot tell without the document."
        return json.dumps({"answer": "Paris" if "capital of France" in question else "seven"})
    if system.startswith("You decide"):
        clear = bool(_CLOZE.search(question) or "capital" in question or "colour" in question)
        return json.dumps({"clear": clear, "why": "" if clear else "several things fit"})
    return _answer(question, said, content, luck)


def _answer(question: str, said: str, content, luck: int) -> str:
    if "colour" in question:
        page = int(re.search(r"page (\d+)", question)[1])
        colour = dict(_seen(content)).get(page)
        return json.dumps({"answerable": colour is not None, "answer": colour or ""})
    pages = [" ".join(found[3].split()) for found in _PAGE.finditer(said)]
    endings = [_ending(rest, pages) for rest in _CLOZE.findall(question)]
    if not endings or None in endings:
        return json.dumps({"answerable": False, "answer": ""})
    answer = " and ".join(endings)
    return json.dumps(
        {"answerable": True, "answer": f"That is {answer}." if luck % 3 == 0 else answer}
    )


def _write(said: str, content, luck: int, again: bool) -> str:
    seen = _seen(content)
    if seen:
        page, colour = seen[0]
        return _questions([(f"Which colour has the sheet of page {page}?", colour, [page])])
    shown = {int(found[1]): _sentences(found[3]) for found in _PAGE.finditer(said)}
    way = WAYS[luck % len(WAYS)]
    if way == "babble" or (way == "babble once" and not again):
        return "Sure! Here are some questions: 1. What is it?"
    if way == "declines" or not any(shown.values()):
        return _questions([])
    page, sentences = next((page, found) for page, found in shown.items() if found)
    sentence = sentences[luck // 100 % max(1, len(sentences) - 1)]
    rest, answer = sentence.rsplit(" ", 1)
    whole = f'What ends the sentence "{rest}"?'
    if "most likely does not say" in said:
        return _questions(
            [(whole if luck % 2 else f'What ends the sentence "{rest} of late"?', "", [])]
        )
    if "say which page" in said:
        return _questions([(f'What ends the sentence "{rest}" on page {page}?', answer, [page])])
    if "put together" in said:
        return _questions([_several(shown, luck)])
    if way == "everywhere":
        rest, answer = sentences[-1].rsplit(" ", 1)
        whole = f'What ends the sentence "{rest}"?'
    asked = {
        "vague": ("What is the total?", answer, [page]),
        "known": ("What is the capital of France, which the report names?", "Paris", [page]),
        "wrong": (whole, "9,999,999", [page]),
        "shown": (f'On this page, what ends the sentence "{rest}"?', answer, [page]),
        "foreign": (whole, answer, [page + 1]),
    }
    if way == "twice":
        again = whole.replace("What", "what").replace("?", "??")
        return _questions([(whole, answer, [page]), (again, answer, [page])])
    return _questions([asked.get(way, (whole, answer, [page]))])


def _several(shown: dict[int, list[str]], luck: int) -> tuple[str, str, list[int]]:
    pages = [page for page, found in shown.items() if found]
    parts = [shown[page][luck // 7 % max(1, len(shown[page]) - 1)].rsplit(" ", 1) for page in pages]
    if luck % 3 == 0:
        parts = parts[:1]
    words = " and what ".join(f'ends the sentence "{rest}"' for rest, _ in parts)
    return f"What {words}?", " and ".join(answer for _, answer in parts), pages


def _questions(found: list[tuple[str, str, list[int]]]) -> str:
    rows = [
        {"question": question, "answer": answer, "pages": pages}
        for question, answer, pages in found
    ]
    text = json.dumps({"questions": rows})
    return f"```json\n{text}\n```" if len(text) % 2 else text


def _sentences(page: str) -> list[str]:
    found = [each.strip() for each in re.split(r"(?<=[a-z0-9])\.(?:\s|$)", " ".join(page.split()))]
    return [each for each in found if len(each.split()) >= 5 and '"' not in each]


def _ending(rest: str, pages: list[str]) -> str | None:
    pattern = re.compile(re.escape(rest) + r" (\S+?)\.(?:\s|$)")
    return next((found[1] for page in pages if (found := pattern.search(page))), None)


def _text(message: dict) -> str:
    return "\n".join(texts_of(message))


def _seen(content) -> list[tuple[int, str]]:
    """Return the numbers of the pages whose pictures were sent, with the colour in the middle of
    each.
    """
    found, number = [], 0
    for part in content if isinstance(content, list) else []:
        if part["type"] == "text":
            number = int((re.findall(r"Page (\d+) of", part["text"]) or [number])[-1])
            continue
        data = base64.b64decode(part["image_url"]["url"].partition(",")[2])
        with Image.open(io.BytesIO(data)) as image:
            middle = image.convert("RGB").getpixel((image.width // 2, image.height // 2))
        found.append((number, min(COLOURS, key=lambda name: math.dist(COLOURS[name], middle))))
    return found


_THINGS = "harbour library reservoir tramway museum orchard quarry theatre brewery mill"
_PLACES = ["Kantora", "Velmora", "Suvita", "Pusora", "Farlasa", "Lurlulin", "Canemont", "Vuldidor"]


def write_pdf(path: Path, name: str, pages: int) -> None:
    """Write a report: every page has four sentences of its own and one that is on all pages; page 2
    has a table.
    """
    canvas = Canvas(str(path), pagesize=(500, 297), invariant=True)
    for number in range(1, pages + 1):
        lines = []
        for part in range(4 * number, 4 * number + 4):
            at = sum(map(ord, name)) + part
            thing, place = _THINGS.split()[at % 10], _PLACES[at // 3 % len(_PLACES)]
            lines.append(
                f"In part {part} of {name} the {thing} of {place} counted visitors {at * 37}."
            )
        if number == 2:
            lines.append(f"Table 1. Visitors of {name} by place.")
        lines.append("The registered office of the company lies in Oslo.")
        for row, line in enumerate(lines):
            canvas.setFont("Helvetica", 11)
            canvas.drawString(30, 270 - 32 * row, line)
        canvas.showPage()
    canvas.save()


def write_colours(path: Path, colours: list[str]) -> None:
    """Write a document of sheets in one colour each, without text."""
    canvas = Canvas(str(path), pagesize=(200, 200), invariant=True)
    for colour in colours:
        canvas.setFillColorRGB(*(value / 255 for value in COLOURS[colour]))
        canvas.rect(0, 0, 200, 200, fill=1, stroke=0)
        canvas.showPage()
    canvas.save()
