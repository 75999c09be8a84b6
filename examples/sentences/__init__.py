"""Spread of embeddings as uncertainty, with a real sentence encoder: python -m examples.sentences."""
