"""Attention over packed rows: flash-attn where it is installed, torch's own kernels of it elsewhere."""
