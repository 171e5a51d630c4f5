"""Count what layers keep for the backward pass, without memory behind their tensors."""
