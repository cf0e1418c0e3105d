"""The tangent kernel alone, against torch.func and the matrix product."""
