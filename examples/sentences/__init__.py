"""Spread of embeddings as a measure of uncertainty of a sentence encoder: python -m examples.sentences."""
