"""Read the sizes of batches, models, servers and GPUs of a configuration, without importing verl.

A budget needs no more of verl than two of its decisions, which are repeated here: importing verl
takes ten seconds.
"""

from collections.abc import Iterator

from omegaconf import DictConfig, OmegaConf

from docagent_rl.systems import get_system
from docagent_rl.training.settings.divisibility import (
    BATCH,
    NODES,
    PER_NODE,
    SERVER,
    TRAJECTORIES,
    Layout,
    Part,
)

ACTOR, REF, ROLLOUT = (f"actor_rollout_ref.{part}" for part in ("actor", "ref", "rollout"))


def read_layout(
    config: DictConfig, nodes: int | None = None, per_node: int | None = None
) -> Layout:
    """Read the sizes of a configuration, optionally with other numbers of nodes and GPUs per node.

    Raises:
        UserError: the configured system does not exist.
    """
    parts = list(_parts(config))
    values = dict.fromkeys(SERVER, 1) | {part.sequence_parallel: 1 for part in parts}
    values |= {part.fsdp_size: -1 for part in parts}
    named = [
        key
        for part in parts
        for key in (part.mini, part.micro, part.infer_micro, *part.tokens)
        if key
    ]
    for key in (*values, *named, BATCH, TRAJECTORIES, NODES, PER_NODE):
        if (value := OmegaConf.select(config, key)) is not None:
            values[key] = int(value)
    values |= {
        key: number for key, number in ((NODES, nodes), (PER_NODE, per_node)) if number is not None
    }
    context = config.data.max_prompt_length + config.data.max_response_length
    modes = [
        OmegaConf.select(config, f"{section}.loss_agg_mode") for section in trained_sections(config)
    ]
    system = OmegaConf.select(config, "docagent.system", throw_on_missing=False)
    return Layout(
        values=values,
        parts=parts,
        longest=min(context, OmegaConf.select(config, f"{ROLLOUT}.max_model_len") or context),
        own_servers=_apart(config),
        several_rows=system is not None and get_system(str(system)).several_rows,
        mean_over_rows=any(str(mode).startswith("seq-mean") for mode in modes),
    )


def _apart(config: DictConfig) -> bool:
    """Return whether rollout servers have separate GPUs."""
    separate = str(OmegaConf.select(config, "trainer.v1.trainer_mode")).endswith("separate_async")
    return separate and not OmegaConf.select(
        config, "actor_rollout_ref.hybrid_engine", default=True
    )


def trained_sections(config: DictConfig) -> list[str]:
    """Return the configuration sections of the policy and, if one is trained, the critic."""
    return [ACTOR, *(["critic"] if has_critic(config) else [])]


def _parts(config: DictConfig) -> Iterator[Part]:
    """Yield the policy and, if they exist, the reference and the critic."""

    def part(
        section: str, engine: str, dynamic: str, tokens: tuple[str, ...], **sizes: str
    ) -> Part:
        own = f"{section}.ulysses_sequence_parallel_size"
        # the engine's key applies if the section's is 1, and always for a critic
        mine = section != "critic" and (OmegaConf.select(config, own) or 1) > 1
        present = {
            name: key for name, key in sizes.items() if OmegaConf.select(config, key) is not None
        }
        return Part(
            sequence_parallel=own if mine else f"{section}.{engine}.ulysses_sequence_parallel_size",
            fsdp_size=f"{section}.{engine}.fsdp_size",
            tokens=tuple(
                key for key in dict.fromkeys(tokens) if OmegaConf.select(config, key) is not None
            ),
            dynamic=bool(OmegaConf.select(config, f"{section}.{dynamic}")),
            **present,
        )

    yield part(
        ACTOR,
        "fsdp_config",
        "use_dynamic_bsz",
        (f"{ACTOR}.ppo_max_token_len_per_gpu", f"{ROLLOUT}.log_prob_max_token_len_per_gpu"),
        mini=f"{ACTOR}.ppo_mini_batch_size",
        micro=f"{ACTOR}.ppo_micro_batch_size_per_gpu",
        infer_micro=f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu",
    )
    if has_reference(config):
        yield part(
            REF,
            "fsdp_config",
            "log_prob_use_dynamic_bsz",
            (f"{REF}.log_prob_max_token_len_per_gpu",),
            infer_micro=f"{REF}.log_prob_micro_batch_size_per_gpu",
        )
    if has_critic(config):
        given = OmegaConf.select(config, "critic.ppo_infer_max_token_len_per_gpu") is not None
        yield part(
            "critic",
            "fsdp",
            "use_dynamic_bsz",
            (f"critic.ppo_{'infer_' if given else ''}max_token_len_per_gpu",),
            mini="critic.ppo_mini_batch_size",
            micro="critic.ppo_micro_batch_size_per_gpu",
            infer_micro="critic.forward_micro_batch_size_per_gpu",
        )


def has_reference(config: DictConfig) -> bool:
    """Return whether a reference model is loaded (verl 0.9.1, `need_reference_policy`)."""
    in_reward = config.algorithm.get("use_kl_in_reward", False)
    return bool(in_reward or config.actor_rollout_ref.actor.use_kl_loss)


def has_critic(config: DictConfig) -> bool:
    """Return whether a critic is trained (verl 0.9.1, `need_critic`)."""
    enabled = config.critic.enable
    return bool(config.algorithm.adv_estimator == "gae" if enabled is None else enabled)
