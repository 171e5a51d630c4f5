"""A real pretrained model, small enough for two cores, over real PDFs: evaluated, fine-tuned,
trained by RL.

PYTHONPATH=examples python -m small_model all

runs the project's own commands one after the other and prints each before it runs; `--help` has the
stages, docs/small_model.md what was found.
"""
