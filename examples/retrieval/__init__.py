"""Diverse retrieval: samples of attention against top-k, MMR and random choices: python -m examples.retrieval."""
