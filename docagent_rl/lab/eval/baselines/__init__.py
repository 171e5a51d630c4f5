"""Baselines of agents: answers without a document, with all of it, with what one search finds.

They are systems like the published ones, so that every player plays them and their trajectories are
samples like all others: `docagent.system=docagent_rl.lab.eval.baselines.systems:RAG_TEXT`.
"""
