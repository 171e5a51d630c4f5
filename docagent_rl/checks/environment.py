"""Environment variables of a configuration get their values where the user set them: in the driver."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from antlr4 import ParserRuleContext
from omegaconf import Container, DictConfig, ListConfig, OmegaConf, read_write
from omegaconf.errors import GrammarParseError
from omegaconf.grammar.gen.OmegaConfGrammarParser import OmegaConfGrammarParser as Grammar
from omegaconf.grammar_parser import parse

from docagent_rl.base.errors import UserError

LOCAL = ("oc.env", "now")
"""Resolvers whose values are those of a process: another one has other variables, and another clock."""
SECRET = frozenset(
    {"apikey", "credential", "credentials", "key", "passphrase", "passwd", "password", "secret", "token"}
)
"""Words in the name of a variable that holds a secret."""
KEYS_NAMED_BY = ("api_key_env", "token_env")


def settle_environment(config: DictConfig) -> None:
    """Put what `${oc.env:...}` and `${now:...}` stand for into their places, here and now.

    verl resolves the configuration in an actor of Ray, whose environment is that of `ray start` on some
    node. Interpolations between keys stay: a value that holds both kinds keeps the one and loses the other.
    The section `hydra` is left alone.

    Args:
        config: the composed configuration, changed in place.

    Raises:
        UserError: a value would come from a variable that holds a secret: Hydra saves the configuration with
            the run, and verl prints it.
        omegaconf.errors.OmegaConfBaseException: a variable is not set, and there is no default.
    """
    places = [place for place in _leaves(config) if "${" in place[2]]
    secrets = {str(text) for _, key, text in _leaves(config) if key in KEYS_NAMED_BY}
    for parent, key, text in places:
        tree = _tree(text)
        if tree is None or not _local(tree):
            continue
        name = parent._get_full_key(key)
        for variable in _variables(tree):
            _refuse_secret(variable, name, secrets)
        value = _partly(tree, text) if _has_keys(tree) else None
        if value is None:
            value = parent[key]
            value = _escaped(value) if isinstance(value, str) else value
        with read_write(parent):
            parent[key] = value


def _leaves(node: Any, top: bool = True) -> Iterator[tuple[DictConfig | ListConfig, Any, str]]:
    """Every string of a configuration as it is written: where it is, under which key, its text."""
    if node._is_none() or node._is_missing() or node._is_interpolation():
        return
    keys = range(len(node)) if isinstance(node, ListConfig) else list(node.keys())
    for key in keys:
        if top and key == "hydra":
            continue
        child = node._get_node(key)
        if isinstance(child, Container) and not child._is_interpolation():
            yield from _leaves(child, top=False)
        elif child is not None and isinstance(text := child._value(), str):
            yield node, key, text


def _tree(text: str) -> ParserRuleContext | None:
    try:
        return parse(text)
    except GrammarParseError:  # OmegaConf says it better, where the value is read
        return None


def _walk(tree: Any) -> Iterator[Any]:
    yield tree
    for child in getattr(tree, "children", None) or ():
        yield from _walk(child)


def _resolvers(tree: Any) -> list[Any]:
    """The calls of resolvers that are of this process."""
    calls = (each for each in _walk(tree) if isinstance(each, Grammar.InterpolationResolverContext))
    return [call for call in calls if call.resolverName().getText() in LOCAL]


def _local(tree: Any) -> bool:
    return bool(_resolvers(tree))


def _has_keys(tree: Any) -> bool:
    return any(isinstance(each, Grammar.InterpolationNodeContext) for each in _walk(tree))


def _variables(tree: Any) -> Iterator[str]:
    for call in _resolvers(tree):
        if call.resolverName().getText() == "oc.env" and call.sequence() is not None:
            yield call.sequence().element(0).getText().strip("'\"")


def _partly(tree: Any, text: str) -> str | None:
    """The text with values for its parts that are of this process; None if a part hangs on other keys."""
    content = tree.getChild(0)
    parts: list[str] = []
    for each in content.getChildren():
        written = _source(each, text)
        if not _local(each):
            parts.append(written)
        elif not _has_keys(each):
            parts.append(_escaped(str(OmegaConf.create({"value": written}).value), ends=True))
        else:
            return None
    return "".join(parts)


def _source(tree: Any, text: str) -> str:
    symbol = getattr(tree, "symbol", None)
    start, stop = (symbol, symbol) if symbol is not None else (tree.start, tree.stop)
    return text[start.start : stop.stop + 1]


def _escaped(value: str, *, ends: bool = False) -> str:
    """A value that OmegaConf reads back as it is; `ends`: an interpolation may follow."""
    value = re.sub(r"(\\*)\$\{", r"\1\1\\${", value)
    return re.sub(r"(\\+)$", r"\1\1", value) if ends else value


def _refuse_secret(variable: str, key: str, secrets: set[str]) -> None:
    if variable not in secrets and SECRET.isdisjoint(variable.lower().split("_")):
        return
    raise UserError(
        f"{key} takes its value from the environment variable {variable}, which holds a secret, and the "
        "configuration is saved with the run and printed: set the variable where the processes of the run "
        "start instead, before `ray start` on every node, and name it where a name is asked for "
        "(docagent.judge.api_key_env); see docs/security.md"
    )
