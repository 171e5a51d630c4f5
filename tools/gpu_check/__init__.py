"""Test the training path on this machine's GPU, in thirteen minutes and without a network.

`make gpu-check` runs it. It needs the source tree, and torch with transformers; verl comes with
`tools/gpu_kit.sh` if it is not installed. Weights are random. Each check runs in its own process
with a time limit. Without a GPU, the checks run at tiny sizes on the CPU, and say so.
"""
