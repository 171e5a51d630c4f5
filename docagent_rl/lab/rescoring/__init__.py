"""Stored sessions paid again: by another variant, weight, judge or estimator, and without a model."""
