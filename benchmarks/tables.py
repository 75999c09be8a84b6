"""New rows of a table judged on held-out rows, beside replay, a shrunk Gaussian and a Gaussian mixture.

python -m benchmarks.tables [--quick] [--seeds 5] [--sdv]

Every method but SDV's works in the codec's features (rank-to-normal, one-hot) and decodes with the same codec, so that
the comparison is between laws, not between encodings.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.covariance import LedoitWolf
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import stochattn
from stochattn.codecs.tables import TableCodec
from stochattn.codecs.tables.measures import copies, correlation_error, distances
from stochattn.mixture import Mixture

N = 1000
Method = Callable[[TableCodec, int, np.random.Generator], Any]


class Task(NamedTuple):
    """A table, and whether its target is a class."""

    name: str
    frame: Any
    classes: bool


def tasks() -> list[Task]:
    found = []
    for name, load in (
        ("wine", datasets.load_wine),
        ("breast cancer", datasets.load_breast_cancer),
        ("diabetes", lambda **options: datasets.load_diabetes(scaled=False, **options)),
    ):
        data = load(as_frame=True)
        frame = data.frame.copy()
        if name != "diabetes":
            frame["target"] = frame["target"].map(dict(enumerate(data.target_names))).astype(str)
        found.append(Task(name, frame, name != "diabetes"))
    return found


def replay(codec: TableCodec, n: int, rng: np.random.Generator) -> Any:
    return codec.take(codec.stored, rng.integers(codec.K, size=n))


def gaussian(codec: TableCodec, n: int, rng: np.random.Generator) -> Any:
    fitted = LedoitWolf().fit(codec.features(codec.stored))
    return decoded(codec, rng.multivariate_normal(fitted.location_, fitted.covariance_, n, method="eigh"), rng)


def mixture(codec: TableCodec, n: int, rng: np.random.Generator) -> Any:
    features = codec.features(codec.stored)
    fits = [
        GaussianMixture(c, covariance_type="diag", reg_covar=1e-3, random_state=0).fit(features)
        for c in range(1, min(5, codec.K // 4) + 1)
    ]
    best = min(fits, key=lambda fit: fit.bic(features))
    best.random_state = int(rng.integers(2**31))
    return decoded(codec, best.sample(n)[0], rng)


def ours(beta: str, **options: Any) -> Method:
    def draw(codec: TableCodec, n: int, rng: np.random.Generator) -> Any:
        codec = TableCodec.fit(codec.stored, **options) if options else codec
        model = stochattn.StochasticAttention(codec.bank, beta=beta, equal_weights=codec.equal_weights)
        z, k = Mixture.of(model.bank, model.beta, codec.factors(model.beta)).sample(n, rng)
        return codec.items(z, k, rng)

    return draw


def decoded(codec: TableCodec, features: Any, rng: np.random.Generator) -> Any:
    """Features (n, p) as rows, by the codec's own columns; cells that are not modelled are those of stored rows."""
    stored = codec.take(codec.stored, rng.integers(codec.K, size=len(features)))
    ends = np.cumsum([column.width for column in codec.columns])
    parts = zip(codec.columns, np.split(features, ends[:-1], axis=1), strict=True)
    return pd.DataFrame({c.name: c.cells(part) if c.width else stored[c.name] for c, part in parts})


def sdv(name: str) -> Method:
    def draw(codec: TableCodec, n: int, rng: np.random.Generator) -> Any:
        import torch
        from sdv import single_table
        from sdv.metadata import Metadata

        torch.manual_seed(int(rng.integers(2**31)))
        np.random.seed(int(rng.integers(2**31)))  # noqa: NPY002  (SDV takes no generator)
        kinds = {c.name: {"sdtype": "categorical" if c.kind in CLASSES else "numerical"} for c in codec.columns}
        metadata = Metadata.load_from_dict({"tables": {"table": {"columns": kinds}}, "relationships": []})
        maker = getattr(single_table, f"{name}Synthesizer")(metadata)
        maker.fit({"table": codec.stored})
        drawn = maker.sample(num_rows=n)
        return drawn["table"] if isinstance(drawn, dict) else drawn

    return draw


CLASSES = ("category", "boolean")
METHODS: dict[str, Method] = {
    "replay": replay,
    "Gaussian, Ledoit-Wolf": gaussian,
    "Gaussian mixture, BIC": mixture,
    "ours, natural": ours("natural"),
    "ours, leave_one_out": ours("leave_one_out"),
}
VARIANTS: dict[str, Method] = {
    f"{rule}, whiten={whiten}, spread={spread}": ours(rule, whiten=whiten, spread=spread)
    for rule in ("natural", "leave_one_out")
    for whiten in (True, False)
    for spread in ("kept", "grown")
}


def split(task: Task, K: int, seed: int) -> tuple[Any, Any]:
    """K stored rows and the rest; at least two of each class are stored."""
    rng = np.random.default_rng(seed)
    for _ in range(100):
        order = rng.permutation(len(task.frame))
        stored = task.frame.iloc[order[:K]].reset_index(drop=True)
        every = stored["target"].value_counts().reindex(task.frame["target"].unique(), fill_value=0)
        if not task.classes or every.min() > 1:
            return stored, task.frame.iloc[order[K:]].reset_index(drop=True)
    raise RuntimeError("no split with two rows of every class")


def scores(task: Task, train: Any, test: Any) -> tuple[float, float]:
    """Accuracy or R² on test rows of a forest and of a linear model trained on these rows."""
    names = [name for name in task.frame.columns if name != "target"]
    if train["target"].nunique() < 2:
        return (float((test["target"] == train["target"].iloc[0]).mean()),) * 2 if task.classes else (0.0, 0.0)
    forest = (RandomForestClassifier if task.classes else RandomForestRegressor)(100, random_state=0)
    linear = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000) if task.classes else Ridge())
    return tuple(
        float(model.fit(train[names].astype(float), train["target"]).score(test[names].astype(float), test["target"]))
        for model in (forest, linear)
    )  # type: ignore[return-value]


def kept(task: Task, stored: Any, new: Any) -> float:
    """Share of columns with the dtype of the stored one and no value outside what the whole table allows."""
    good = [
        new[name].dtype == stored[name].dtype
        and (
            set(new[name]) <= set(task.frame[name])
            if stored[name].dtype.kind == "O"
            else bool(new[name].notna().all())
            and (bool((new[name] >= 0).all()) or bool((task.frame[name] < 0).any()))
            and (bool((new[name] % 1 == 0).all()) or bool((task.frame[name] % 1 != 0).any()))
        )
        for name in stored
    ]
    return float(np.mean(good))


def measure(task: Task, K: int, seed: int, methods: dict[str, Method]) -> dict[str, list[float]]:
    """For each method: column distance, correlation error, columns kept, two scores, their gaps to stored, copies."""
    stored, held_out = split(task, K, seed)
    codec = TableCodec.fit(stored)
    modelled = [column for column in codec.columns if column.how is not None]
    reference = TableCodec.fit(task.frame)  # one set of features for every split
    trained_on_stored = scores(task, stored, held_out)
    figures = {}
    for number, (name, method) in enumerate(methods.items()):
        new = method(codec, N, np.random.default_rng([seed, number]))
        trained = scores(task, new, held_out)
        figures[name] = [
            float(np.mean(distances(modelled, held_out, new))),
            correlation_error(reference.features(held_out), reference.features(new)),
            kept(task, stored, new),
            *trained,
            trained[0] - trained_on_stored[0],
            trained[1] - trained_on_stored[1],
            copies(codec.columns, stored, new),
        ]
    return figures


HEAD = (
    *("table", "K", "method", "KS/TV", "correlation error", "columns kept"),
    *("forest", "linear", "forest − stored", "linear − stored", "copies"),
)


def table(seeds: Sequence[int], sizes: Sequence[int], methods: dict[str, Method]) -> list[str]:
    """The lines of a Markdown table."""
    lines = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    for task in tasks():
        for K in sizes:
            size = min(K, len(task.frame) * 4 // 5)
            runs = [measure(task, size, seed, methods) for seed in seeds]
            for name in methods:
                values = np.array([run[name] for run in runs])
                cells = [f"{m:.3f} ± {s:.3f}" for m, s in zip(values.mean(0), values.std(0), strict=True)]
                lines.append("| " + " | ".join([task.name, str(size), name, *cells]) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two seeds, K = 50 only")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sdv", action="store_true", help="also SDV's TVAE and Gaussian copula, if installed")
    parser.add_argument("--variants", action="store_true", help="our options against each other instead of methods")
    options = parser.parse_args()
    methods = dict(VARIANTS if options.variants else METHODS)
    if options.sdv:
        methods |= {f"SDV {name}": sdv(name) for name in ("GaussianCopula", "TVAE")} if find_spec("sdv") else {}
        if not find_spec("sdv"):
            print("sdv is not installed: its rows are left out.", file=sys.stderr)
    warnings.simplefilter("ignore")
    # Options are chosen on other splits than those on which methods are reported.
    first = 1000 if options.variants else 0
    seeds = range(first, first + (2 if options.quick else options.seeds))
    print("\n".join(table(seeds, (50,) if options.quick else (20, 50, 150), methods)))


if __name__ == "__main__":
    main()
