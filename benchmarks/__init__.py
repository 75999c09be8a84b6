"""Speed, as ratios measured side by side (`python -m benchmarks`), and quality, a module for each subject."""
