"""One module per experiment with `run(data, seed, quick) -> Result`; its .toml file has the published values."""
