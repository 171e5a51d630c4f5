"""Entry point of the group `vllm.general_plugins`: vLLM calls `register_vllm_plugin` in each of its
processes.

The core of an engine does not import verl, so `plugin.py` is not loaded there. Any other program
that runs vLLM in this environment loads this plugin as well, so it only applies patches that are
safe for all.
"""


def register_vllm_plugin() -> None:
    """Apply the patches that vLLM's own processes need; it may be called repeatedly."""
    from docagent_rl.patches import (
        message_queue_memory,
        vllm_gemma4_shared_keys,
        vllm_released_experts,
    )
    from docagent_rl.training.patching import install

    install(
        [message_queue_memory.PATCH, vllm_gemma4_shared_keys.PATCH, vllm_released_experts.PATCH]
    )
