"""Off-policy models with and without a handrail: scores, what acted against it, and the time."""
