"""Baselines for agents: answers without the document, with all of it, with its evidence alone, or
with the result of one search.

They are systems like the published ones, so that every player can play them and their trajectories
can be used like any others: `docagent.system=docagent_rl.lab.eval.baselines.systems:RAG_TEXT`.
"""
