"""The map of a report: stored and new items as points of a plane, with colours for classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from .._backend.arrays import Array
from .._backend.html import Html, figure, joined, name
from ..core.neighbors import evenly
from ..data.kind import AnyKind
from . import figures
from .evidence import Classes, Evidence


def item_map(evidence: Evidence) -> Html:
    """Stored and new rows along the two directions in which the stored ones vary most, with colours for classes."""
    items, stored, new = evidence.synth.kind.items, evidence.synth.stored_rows, evidence.rows
    chosen, drawn = evenly(len(stored), figures.MAX_POINTS), evenly(len(new), figures.MAX_POINTS)
    counts = ((len(drawn), evidence.n), (len(chosen), len(stored)))
    some = [f"{shown:,} of {n:,}" if shown < n else f"All {n:,}" for shown, n in counts]
    about = (
        f"{some[0]} new and {some[1].lower()} stored {items} along the two directions in which the stored ones "
        "vary most. Triangles are new, rings are stored. "
    )
    colours, legend = None, Html("")
    classes = evidence.classes
    if classes is not None and len(set(classes.stored.tolist())) > 1:
        by_class = _colours(classes.stored)
        colours = _coloured(classes.stored[chosen], by_class), _coloured(classes.new[drawn], by_class)
        legend = joined(["Colours are classes:", *_keys(by_class, classes, evidence.synth.kind), "."])
    plot = figures.plane(*_projected(stored[chosen], new[drawn]), colours)
    about = joined([about, legend])
    return figure(plot, f"Scatter plot of stored and new {items} in two principal components", about, "map")


def _colours(classes: Array) -> dict[str, str]:
    """A colour for each class (K,), or for the most frequent ones where there are more classes than colours."""
    frequent = Counter(sorted(classes.tolist())).most_common(len(figures.PALETTE))
    return dict(zip(sorted(one for one, _ in frequent), figures.PALETTE, strict=False))


def _coloured(classes: Array, by_class: dict[str, str]) -> list[str]:
    return [by_class.get(one, figures.OTHERS) for one in classes.tolist()]


def _keys(by_class: dict[str, str], classes: Classes, kind: AnyKind) -> Iterator[str]:
    """The legend: a dot in the colour of each class, and how the class of a new item is known."""
    n_others = len(set(classes.stored.tolist()) - set(by_class))
    for one, colour in by_class.items():
        yield Html(f' <span class="key" style="background:{colour}"></span>{name(one, 30)}')
    if n_others:
        yield Html(f' <span class="key" style="background:{figures.OTHERS}"></span>')
        yield f"{n_others:,} others"
    if not kind.items_have_labels:
        yield f"; a new {kind.item} has that of the stored {kind.item} nearest to it"


def _projected(stored: Array, new: Array) -> tuple[Array, Array, Array]:
    """Rows in two principal components of the stored ones, and their shares of the variance: (K, 2), (n, 2), (2,)."""
    from sklearn.decomposition import PCA

    found = np.zeros((len(stored), 2)), np.zeros((len(new), 2)), np.zeros(2)
    n_components = min(2, *stored.shape)
    if np.ptp(stored, axis=0).any():  # a single row has no direction either
        solver = "randomized" if n_components < min(stored.shape) else "full"  # equivalent: both find the same
        pca = PCA(n_components, svd_solver=solver, random_state=0).fit(stored)
        values = pca.transform(stored), pca.transform(new), pca.explained_variance_ratio_
        for place, value in zip(found, values, strict=True):
            place[..., :n_components] = value
    return found
