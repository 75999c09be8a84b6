"""Samplers with a known defect, and one without: what the verdict must say of each is known before it is measured."""

from copy import copy
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.ndimage import gaussian_filter
from sklearn.datasets import load_digits

import stochattn as sa
from stochattn.core.neighbors import nearest_rows
from stochattn.kinds.codec import Codec
from stochattn.kinds.generator import Description, Generated

from . import made

N_POOL = 1500
ANCESTORS = np.random.default_rng(6).integers(0, 20, (2, 40))
DIGITS = load_digits()
ORDER = np.random.default_rng(8).permutation(len(DIGITS.target))  # they are sorted by their writers
PICTURES = np.round(DIGITS.images[ORDER] * (255 / 16)).astype(np.uint8)
CLASSES = DIGITS.target[ORDER].astype(str)
CLASS_OF = {picture.tobytes(): one for picture, one in zip(PICTURES, CLASSES, strict=True)}


def rows_of_a_table(rng, n):
    """Five related columns and a class: three groups with their own means, and a common covariance."""
    group = rng.integers(3, size=n)
    means = np.array([[0, 0, 0, 0, 0], [4, 4, 0, -3, 2], [-4, 3, 4, 3, 0]])
    mixing = np.random.default_rng(5).normal(size=(2, 5))
    values = means[group] + rng.normal(size=(n, 2)) @ mixing + 0.5 * rng.normal(size=(n, 5))
    return pd.DataFrame(values, columns=list("abcde")).round(4).assign(group=np.array(["x", "y", "z"])[group])


def days(rng, n):
    """Log-returns of six tickers with one common factor and heavy tails."""
    factor, own = rng.standard_t(4, (n, 1)), rng.standard_t(4, (n, 6))
    return 0.01 * (factor + own)


def family(rng, n):
    """Sequences of two subfamilies, in which each position keeps its ancestor's residue with probability 0.7."""
    kept = rng.random((n, 40)) < 0.7
    others = np.random.default_rng(7).integers(0, 20, (3, 40))[rng.integers(3, size=(n, 40)), np.arange(40)]
    return np.where(kept, ANCESTORS[rng.integers(2, size=n)], others).astype(np.uint8)


def stored_and_pool(kind):
    """A synthesizer of stored items, further items of the same law, and their classes where there are classes."""
    rng = np.random.default_rng(3)
    if kind == "table":
        stored, pool = rows_of_a_table(rng, 160), rows_of_a_table(rng, N_POOL)
        return sa.fit(stored, "table", label="group"), pool, pool["group"].to_numpy()
    if kind == "image":
        return sa.fit(PICTURES[:300], "image", labels=CLASSES[:300]), PICTURES[300:], CLASSES[300:]
    if kind == "protein":
        return made.proteins(family(rng, 120)), family(rng, N_POOL), None
    synth = made.returns(days(rng, 500), list("abcdef"), window=5)
    return synth, days(rng, 5 * N_POOL).reshape(N_POOL, 5, 6), None


def blurred(kind, values, stored, rng):
    """Pictures out of focus, the commonest residue at half of the positions, means of nearest rows or of days."""
    if kind == "image":
        return gaussian_filter(values, (0, 1.2, 1.2))
    if kind == "protein":
        commonest = np.array([np.bincount(column).argmax() for column in stored.T])
        return np.where(rng.random(values.shape) < 0.5, commonest, values).astype(np.uint8)
    if kind == "returns":
        return (values + np.roll(values, 1, axis=1) + np.roll(values, 2, axis=1)) / 3
    distances = np.square(values[:, None] - stored[None]).sum(-1)
    return stored[np.argsort(distances, axis=1)[:, :10]].mean(1)


def noise(kind, values, stored, rng):
    if kind == "protein":
        return rng.integers(0, 20, values.shape).astype(np.uint8)
    if kind == "returns":
        return rng.normal(0, 3 * stored.std(), values.shape)
    return rng.uniform(stored.min(0), stored.max(0), values.shape)


def one_part_permuted(kind, values, stored, rng):
    """The first column of a table, a column of pixels, a position, a ticker: as it is stored, unrelated to the rest."""
    values, order = values.copy(), rng.permutation(len(values))
    part = {"table": np.s_[:, 0], "image": np.s_[:, :, 3], "protein": np.s_[:, 0], "returns": np.s_[:, :, 0]}[kind]
    values[part] = values[order][part]
    return values


def gaussian(kind, values, stored, rng):
    """One Gaussian with the mean and the covariance of the stored items; independent positions of sequences."""
    if kind == "protein":
        return np.stack([rng.choice(column, len(values)) for column in stored.T], axis=1)
    flat = stored.reshape(-1, stored.shape[-1]) if kind == "returns" else stored.reshape(len(stored), -1)
    n = values.size // flat.shape[1]
    drawn = rng.multivariate_normal(flat.mean(0), np.cov(flat.T), n, method="svd")
    return np.clip(drawn.reshape(values.shape), *((0, 1) if kind == "image" else (None, None)))


DEFECTS = {"blur": blurred, "noise": noise, "one part permuted": one_part_permuted, "gaussian": gaussian}


@dataclass(frozen=True, eq=False)
class Planted:
    """A generator with a defect. Without one it draws from the pool, as nobody could: new items of the true law."""

    kind: str
    defect: str
    codec: Codec
    pool: np.ndarray  # arrays of the pool's items
    classes: np.ndarray | None

    def sample(self, n, rng):
        stored = np.asarray(self.codec.encode(self.codec.stored))
        if self.defect == "replay":
            source = rng.integers(len(stored), size=n)
            return Generated(stored[source], source)
        pool = self.without_one_mode() if self.defect == "a dropped mode" else np.arange(len(self.pool))
        chosen = rng.choice(pool, n)
        repeated = np.delete(np.arange(n), np.unique(chosen, return_index=True)[1])
        chosen[repeated] = np.setdiff1d(pool, chosen)[: len(repeated)]
        values = self.pool[chosen]
        if self.defect in DEFECTS:
            values = DEFECTS[self.defect](self.kind, values, stored, rng)
        if self.kind == "table" and self.defect == "shuffled classes":
            own = self.codec.blocks[self.codec.position("group")]
            values = values.copy()
            values[:, own] = rng.permutation(values[:, own])
        source = nearest_rows(*(x.reshape(len(x), -1).astype(float) for x in (values, stored)))
        if self.kind == "image":  # the class of a picture is that of its source
            wanted = (
                rng.permutation(self.classes[chosen]) if self.defect == "shuffled classes" else self.classes[chosen]
            )
            known = np.array([CLASS_OF[picture.tobytes()] for picture in self.codec.stored])
            source = np.array([rng.choice(np.flatnonzero(known == one)) for one in wanted])
        return Generated(values, source)

    def without_one_mode(self):
        """Numbers of the pool's items of all classes but one, or of one of two subfamilies, or of rising weeks."""
        if self.classes is not None:
            return np.flatnonzero(self.classes != self.classes[0])
        flat = self.pool.reshape(len(self.pool), -1)
        if self.kind == "returns":
            return np.flatnonzero(flat.mean(1) > np.quantile(flat.mean(1), 0.7))
        return np.flatnonzero((flat == ANCESTORS[0]).sum(1) > (flat == ANCESTORS[1]).sum(1))

    def condition(self, observation):
        return self

    def describe(self):
        return Description("planted", f"a sampler with a known defect: {self.defect}")


def planted(kind, defect):
    """A synthesizer whose generator has the defect, also when it is fitted on halves of the stored items."""
    synth, pool, classes = stored_and_pool(kind)
    own = copy(synth.kind)
    own.fit_generator = lambda name, codec, weights, options: Planted(
        kind, defect, codec, np.asarray(codec.encode(pool)), classes
    )
    return made.change_fit(synth, kind=own)
