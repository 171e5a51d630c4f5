"""A study of a pretrained model on real PDFs: evaluation, fine-tuning and RL on two CPU cores.

PYTHONPATH=examples python -m small_model all

The command runs the project's own commands one after the other, and prints each before it runs;
`--help` has the stages, docs/small_model.md the results.
"""
