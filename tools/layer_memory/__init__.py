"""Count the bytes that layers keep for the backward pass, with tensors that have no memory."""
