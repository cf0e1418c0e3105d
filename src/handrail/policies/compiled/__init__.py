"""The passes of a network with one hidden ReLU layer, compiled (optional: needs numba)."""
