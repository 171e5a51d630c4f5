"""`make gpu-check`: does the training path work on this machine's GPU, in eleven minutes, without a
network.

Random weights, the source tree, and torch with transformers; verl comes with `tools/gpu_kit.sh`
where it is not installed. Each check runs in a process of its own, under a time limit. Without a
GPU, checks run at tiny sizes on the processor, and say so.
"""
