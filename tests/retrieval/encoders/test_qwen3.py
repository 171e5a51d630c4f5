"""Models of Qwen3's families, compared with the libraries that they come from."""

import numpy as np
import pytest
import torch

from docagent_rl.retrieval.encoders.spec import named_spec
from tests.retrieval.encoders.conftest import assert_same
from tests.tiny_retrievers import TinyRetriever

QUERIES = ["revenue", "what is in the table of the last year, and in which chart?"]


@pytest.mark.parametrize("kind", [TinyRetriever.COLQWEN3, TinyRetriever.COLQWEN3_5])
def test_late_interaction_is_that_of_colpali_engine(encoder, tiny, pictures, kind):
    import colpali_engine.models as library

    name = {TinyRetriever.COLQWEN3: "ColQwen3", TinyRetriever.COLQWEN3_5: "ColQwen3_5"}[kind]
    model = getattr(library, name).from_pretrained(tiny(kind)).eval()
    processor = getattr(library, f"{name}Processor").from_pretrained(tiny(kind))
    ours = encoder(kind)

    def theirs(batch):
        with torch.inference_mode():
            return [each.numpy() for each in model(**batch)]

    pages = [theirs(processor.process_images([page]))[0] for page in pictures]
    assert_same(ours.encode_pages(pictures), pages)
    queries = [theirs(processor.process_queries(queries=[query]))[0] for query in QUERIES]
    assert_same(ours.encode_queries(QUERIES), queries)
    assert ours.dim == model.dim


def test_the_last_token_is_that_of_the_script_of_qwen3_vl_embedding(encoder, tiny, pictures):
    """The library makes conversations, pads on the right and takes the last token that is not
    padding.
    """
    from transformers import Qwen3VLModel, Qwen3VLProcessor

    folder, spec = tiny(TinyRetriever.QWEN3_VL), named_spec("qwen3-vl-embedding-2b")
    model = Qwen3VLModel.from_pretrained(folder).eval()
    processor = Qwen3VLProcessor.from_pretrained(folder, padding_side="right")
    processor.image_processor.size = {
        "shortest_edge": spec.min_pixels,
        "longest_edge": spec.max_pixels,
    }

    def conversation(instruction, content):
        system = {"role": "system", "content": [{"type": "text", "text": instruction}]}
        return [system, {"role": "user", "content": [content]}]

    def theirs(conversations, images=None):
        text = processor.apply_chat_template(
            conversations, add_generation_prompt=True, tokenize=False
        )
        batch = processor(text=text, images=images, padding=True, return_tensors="pt")
        with torch.inference_mode():
            hidden = model(**batch).last_hidden_state
        last = hidden[torch.arange(len(text)), batch["attention_mask"].sum(1) - 1]
        return list(torch.nn.functional.normalize(last, dim=-1).numpy()[:, None])

    ask = "Retrieve images or text relevant to the user's query."
    found = encoder(TinyRetriever.QWEN3_VL)
    queries = theirs([conversation(ask, {"type": "text", "text": query}) for query in QUERIES])
    assert_same(found.encode_queries(QUERIES), queries)
    shown = [conversation("Represent the user's input.", {"type": "image"})] * len(pictures)
    pages = theirs(shown, list(pictures))
    assert_same(found.encode_pages(pictures), pages)
    assert np.abs(pages[0] - pages[1]).max() > 1e-3
