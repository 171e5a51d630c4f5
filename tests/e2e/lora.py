"""LoRA in the runs `chain`, whose server gets the adapter, and `nodes`, whose servers get merged
weights.
"""

STEPS = 2
LORA = ("+lora=language", "actor_rollout_ref.actor.optim.lr=1e-2")
"""At a rate so high that the policy of a step is nowhere near that of the step before."""
