"""Noise inside attention against temperature, on a small GPT-2: python -m examples.continuations."""
