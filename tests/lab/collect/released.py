"""Dialogues as UniDoc-RL's converter writes them, about pages of a store."""

from docagent_rl.documents import PageRef

PROMPT = "Please use <search>query</search>.\n\n**User question: {}**"
ROLES = ("user", "assistant")


def image(ref):
    return f"/data/img/{ref.doc_id}_{ref.page}.jpg"


def pages_of(world, count):
    """The first pages of the world, over its documents."""
    refs = [
        PageRef(doc_id, page)
        for page in (1, 2, 3)
        for doc_id in world.store.doc_ids()
        if page <= world.store.document(doc_id).num_pages
    ]
    return refs[:count]


def row(texts, images, question="How many people work there?", **more):
    """A row of the file: the question, then what teacher and environment say in turn."""
    said = [PROMPT.format(question), *texts]
    messages = [{"role": ROLES[number % 2], "content": text} for number, text in enumerate(said)]
    return {"messages": messages, "images": images, **more}


def listed(count):
    lead = "The list of retrieved images is as follows:\n"
    return lead + "\n".join(f"Image {number}:<image>" for number in range(count))


def dialogue(
    world, *, box="[[100, 200, 500, 400]]", thought="It is at [100, 200, 500, 400].", **more
):
    """Two searches: in the first a page is selected and magnified, in the second it is read."""
    refs = pages_of(world, 6)
    first, second = refs[:3], refs[3:]
    note = "<think>Read.</think>\n<information>1,204</information>\n<think>So.</think>\n"
    texts = [
        "<think>Search [2015, 2016, 2017, 2018].</think>\n<search>staff</search>",
        listed(3),
        "<think>The second.</think>\n<select>1</select>",
        "The selected image is:\n<image>",
        f"<think>{thought}</think>\n<bbox>{box}</bbox>",
        "The cropped image is:\n<image>",
        f"{note}<search>people</search>",
        listed(3),
        "<think>The first.</think>\n<select>0</select>",
        "The selected image is:\n<image>",
        f"{note}<answer>1,204</answer>",
    ]
    crop = "/data/crops/x_100_200_500_400.png"
    shown = [*first, first[1], crop, *second, second[0]]
    images = [each if isinstance(each, str) else image(each) for each in shown]
    return row(texts, images, **more)
