"""Stable-Baselines3's learners with a handrail and without, everything else the same."""
