"""A module for each experiment, with `run(data, seed, quick) -> Result`; what the paper prints is in its .toml."""
