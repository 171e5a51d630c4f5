"""Rescoring of stored trajectories with another variant, weight, judge or estimator, without a
model.
"""
