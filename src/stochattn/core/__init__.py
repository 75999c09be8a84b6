"""The paper's objects as pure functions: memories, energy, bounds, conditioning, temperature, mixtures, metrics."""
