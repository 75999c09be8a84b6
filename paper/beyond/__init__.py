"""Experiments that are not in the paper, in the form of its experiments: `run(data, seed, quick) -> Result`."""
