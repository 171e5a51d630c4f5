"""`make gpu-check`: test the training path on this machine's GPU, in eleven minutes, without a
network.

It needs random weights, the source tree, and torch with transformers; verl comes with
`tools/gpu_kit.sh` if it is not installed. Each check runs in its own process with a time limit.
Without a GPU, the checks run at tiny sizes on the CPU, and say so.
"""
