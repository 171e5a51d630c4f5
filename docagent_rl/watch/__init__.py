"""Watches the actors, engines and processes of a run from its driver, and ends the run when one of
them dies.

verl waits without end for what dies in most of its places: in the replay buffer, in a weight
update, for a place that Ray cannot give. The driver sees all of them in Ray's own tables, whatever
the trainer is doing.
"""
