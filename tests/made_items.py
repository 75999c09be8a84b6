"""Generated stored items for the tests of codecs and commands."""

import numpy as np

from stochattn.kinds.proteins.generator.sequences import GAP
from stochattn.kinds.proteins.reading import LETTERS


def family(K=30, L=24, seed=0):
    """Codes (K, L) of two subfamilies, with a few gaps and correlated positions."""
    rng = np.random.default_rng(seed)
    consensus = rng.integers(0, 20, (2, L))
    codes = consensus[rng.integers(0, 2, K)]
    drift = rng.random((K, L)) < 0.25
    codes[drift] = rng.integers(0, 20, drift.sum())
    codes[rng.random((K, L)) < 0.04] = GAP
    return codes.astype(np.uint8)


def as_text(codes, gap="-"):
    return ["".join(gap if c == GAP else LETTERS[c] for c in row) for row in codes]


def write_fasta(path, codes, names=None):
    names = names or [f"seq{i}/1-{codes.shape[1]}" for i in range(len(codes))]
    path.write_text("".join(f">{name}\n{row}\n" for name, row in zip(names, as_text(codes), strict=True)))
    return path


def write_stockholm(path, codes):
    rows = "".join(f"seq{i:<12} {row}\n" for i, row in enumerate(as_text(codes, ".")))
    path.write_text(f"# STOCKHOLM 1.0\n{rows}//\n")
    return path


def table(K=40, seed=0):
    """A frame with a column of each kind: number, integer, boolean, category, date, missing cells."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    group = rng.choice(["red", "green", "blue"], K, p=[0.5, 0.3, 0.2])
    shift = np.select([group == "red", group == "green"], [0.0, 2.0], 4.0)
    frame = pd.DataFrame(
        {
            "height": np.round(rng.normal(170, 8, K) + 3 * shift, 1),
            "age": rng.integers(20, 80, K),
            "smoker": rng.random(K) < 0.3,
            "group": group,
            "seen": pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 300, K), unit="D"),
            "score": np.where(rng.random(K) < 0.15, np.nan, np.round(rng.normal(0, 1, K) + shift, 2)),
        }
    )
    frame["seen"] = frame["seen"].dt.strftime("%Y-%m-%d")
    return frame


def write_table(path, K=40, seed=0):
    table(K, seed).to_csv(path, index=False)
    return path


def write_prices(path, days=120, tickers=6, seed=0):
    import pandas as pd

    rng = np.random.default_rng(seed)
    market = rng.standard_t(4, (days, 1)) * 0.006
    returns = market + rng.standard_t(4, (days, tickers)) * 0.006
    prices = 100 * np.exp(np.cumsum(returns, axis=0))
    frame = pd.DataFrame(prices.round(4), columns=[f"T{i}" for i in range(tickers)])
    frame.insert(0, "date", pd.bdate_range("2022-01-03", periods=days).strftime("%Y-%m-%d"))
    frame.to_csv(path, index=False)
    return path


def write_pictures(folder, each=8, size=10, seed=0):
    """A folder of grey pictures in two classes: horizontal bars and vertical bars."""
    from PIL import Image

    rng = np.random.default_rng(seed)
    for name in ("lying", "standing"):
        (folder / name).mkdir(parents=True)
        for i in range(each):
            picture = rng.integers(0, 40, (size, size))
            at = int(rng.integers(1, size - 2))
            picture[at : at + 2] += 180
            picture = picture if name == "lying" else picture.T
            Image.fromarray(picture.astype(np.uint8)).save(folder / name / f"{i}.png")
    return folder


def write_all(folder):
    """An input of each kind, by name."""
    return {
        "protein": write_stockholm(folder / "family.sto", family()),
        "image": write_pictures(folder / "faces"),
        "table": write_table(folder / "patients.csv"),
        "returns": write_prices(folder / "prices.csv"),
        "signals": write_ts(folder / "beats.ts"),
    }


def signals(n=24, points=60, channels=1, seed=0):
    """Signals (n, channels, points) of two classes, a bump or a step at times that vary, and the classes."""
    rng, t = np.random.default_rng(seed), np.arange(points) / points
    found, labels = np.empty((n, channels, points)), []
    for i in range(n):
        middle, height = 0.4 + 0.04 * rng.normal(), 1 + 0.2 * rng.normal()
        bump = height * np.exp(-(((t - middle) / 0.08) ** 2))
        step = height / (1 + np.exp(-(t - middle) / 0.04))
        labels.append("ab"[i % 2])
        for c in range(channels):
            found[i, c] = (c + 1) * (step if i % 2 else bump) + 0.02 * rng.normal(size=points)
    return found, tuple(labels)


def write_ts(path, values=None, labels=None):
    """Signals (n, channels, points) in the .ts format, written here independently of the package."""
    if values is None:
        values, labels = signals()
    head = ["# made", "@problemName made", f"@univariate {str(values.shape[1] == 1).lower()}", "@equalLength true"]
    head.append("@classLabel false" if labels is None else f"@classLabel true {' '.join(sorted(set(labels)))}")
    ends = [[] if labels is None else [label] for label in (labels or values)]
    lines = [
        ":".join([*(",".join(map(repr, c)) for c in one), *end]) for one, end in zip(values.tolist(), ends, strict=True)
    ]
    path.write_text("\n".join([*head, "@data", *lines, ""]))
    return path
