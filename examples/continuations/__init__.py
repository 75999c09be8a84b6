"""Noise in attention compared with temperature, on a small GPT-2: python -m examples.continuations."""
