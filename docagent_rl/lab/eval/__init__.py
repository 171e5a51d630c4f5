"""Evaluation of agents on public benchmarks."""
