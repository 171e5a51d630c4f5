"""Stored trajectories rewarded anew: by another variant, weight, judge or estimator, and without a
model.
"""
