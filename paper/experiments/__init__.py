"""A module for each experiment, with `run(data, seed, quick) -> Result`, and its published values in a .toml beside it."""
