"""Benchmarks of speed, as ratios to baselines (`python -m benchmarks`), and of quality, one module per subject."""
