"""Trainings that are made once and kept as lines of the project: a study goes on where it was."""
