"""The parts and variables of ALDEN's prompt files."""

from docagent_rl.base.prompts import PromptSpec

PROMPT = PromptSpec(
    required=frozenset(
        {"system", "user", "page_label", "image_list", "text_list", "final_turn"}
        | {"no_page", "no_text", "no_room", "no_such_page", "malformed_fetch"}
    ),
    variables=frozenset(
        {
            "question",
            "num_pages",
            "first_page",
            "last_page",
            "turns",
            "fetch",
            "ordinal",
            "pages_per_search",
            "refusal",
            "page",
        }
    ),
    shown=frozenset({"question"}),
)
