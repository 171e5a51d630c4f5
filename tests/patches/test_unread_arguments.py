"""Arguments that verl's code for our models accepts and does not read, each with the reason why
that is right.

An argument that nobody reads is lost without a word: a new one has to be looked at.
"""

import ast
import importlib
import inspect

import pytest

NAMES = ("qwen2_vl", "qwen3_vl", "qwen3_5", "glm4v", "dense_common")
WHOLE_LOGITS = {"labels", "temperature"}
"""Arguments of forward passes that return logits; the engine divides them and uses labels."""
REASONS = {
    # the engine passes position ids and no mask; the window is read from the configuration
    "qwen2_vl.qwen2_vl_attn_forward": {"kwargs"},
    "glm4v.glm4v_attn_forward": {"kwargs"},
    "qwen2_vl.qwen2_vl_base_forward": {"labels"},
    "glm4v.glm4v_base_forward": {"labels"},
    "qwen2_vl.forward_with_normal_backend": WHOLE_LOGITS,
    "qwen3_vl.forward_with_normal_backend": WHOLE_LOGITS,
    "qwen3_5.forward_with_normal_backend": WHOLE_LOGITS,
    "glm4v.forward_with_normal_backend": WHOLE_LOGITS,
    # types of tokens, which the marks of images tell
    "qwen3_vl.get_rope_index": {"kwargs"},
    # images among them: patches/fused_forward_with_images.py
    "dense_common.forward_with_torch_backend": {"logits_to_keep", "loss_kwargs"},
    "dense_common.forward_with_triton_backend": {"logits_to_keep", "loss_kwargs"},
}


def unread(function: ast.FunctionDef) -> set[str]:
    """Return the arguments of a function whose names do not occur in its body."""
    given = function.args
    named = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    named += [each.arg for each in (given.vararg, given.kwarg) if each is not None]
    parts = [part for statement in function.body for part in ast.walk(statement)]
    return set(named) - {part.id for part in parts if isinstance(part, ast.Name)} - {"self"}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_taken_is_read_or_needs_no_reading(name):
    module = importlib.import_module(f"verl.models.transformers.{name}")
    functions = [
        part
        for part in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(part, ast.FunctionDef)
    ]
    found = {f"{name}.{each.name}": unread(each) for each in functions if unread(each)}
    assert found == {key: names for key, names in REASONS.items() if key.startswith(f"{name}.")}
