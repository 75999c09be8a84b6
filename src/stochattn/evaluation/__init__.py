"""Evaluation: held-out metrics, split-half validation, privacy."""
