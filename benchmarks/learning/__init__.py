"""Whole training runs, and one observation, next to the steps of their environments."""
