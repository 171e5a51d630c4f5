"""Asynchronous training with trajectories of very different lengths: how old what is trained on
is.
"""
