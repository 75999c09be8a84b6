"""The paper, experiment by experiment: published value, ours, the exact law's prediction, and a verdict.

    python -m paper list
    python -m paper run mnist protein --quick
    python -m paper all

An experiment is a module of `paper.experiments` with `run(data, seed, quick) -> Result`; what the paper prints for it
stands in a .toml file beside it. It uses the public names of `stochattn` and nothing else of it.
"""
