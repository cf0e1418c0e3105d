"""Runs on a Ray cluster: what it costs, how many one command can keep, and what dies."""
