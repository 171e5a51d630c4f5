"""Entry point of the group `vllm.general_plugins`: vLLM calls `register_vllm_plugin` in each of its
processes.

Its engine's core imports no verl, so that `plugin.py` does not come there. Whatever else runs vLLM
in this environment gets the same, so it holds what is right for all.
"""


def register_vllm_plugin() -> None:
    """Apply the patches that vLLM's own processes need; may be called again."""
    from docagent_rl.patches import (
        message_queue_memory,
        vllm_gemma4_shared_keys,
        vllm_released_experts,
    )
    from docagent_rl.training.patching import install

    install(
        [message_queue_memory.PATCH, vllm_gemma4_shared_keys.PATCH, vllm_released_experts.PATCH]
    )
