"""Reproduce the paper: for each experiment the published value, ours, the prediction of the exact law, and a verdict.

    python -m paper list
    python -m paper run mnist protein --quick
    python -m paper all

An experiment is a module of `paper.experiments` with `run(data, seed, quick) -> Result`. The published values are in a
.toml file next to it. Experiments use only public names of `stochattn`.
"""
