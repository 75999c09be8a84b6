"""What the trial of "auto" changes: three measures with and without it, and its cost.

    python -m benchmarks.trial [--packages FOLDER] [--data FOLDER] [KIND ...]

Each line of the first table is one data set: the loss of the default, that of the generator which is chosen, the
accuracy of telling their items from held-out ones, their near-copies and by how much the key measure of the kind is
worse, and seconds of the processor. What the trial chose is judged there by the same half that chose it. The second
table has the sets for which it chose another generator: both are judged on three new random halves.
"""

from __future__ import annotations

import argparse
import math
import os
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import stochattn as sa
from stochattn.core.neighbors import nearest_distances
from stochattn.evaluation.split_half import membership_auc
from stochattn.kinds.comparison import share_near, two_sample_accuracy
from stochattn.kinds.summary import Attempt, TrialRecord
from stochattn.synthesizer.trial import MAX_ITEMS, MIN_DRAWS, NEAREST

from .trial_data import SETS, TrialSet

HEAD = (
    "| data | stored | default | two-sample | near-copies | measure | loss "
    "| chosen | two-sample | near-copies | measure | loss | s |"
)
AGAIN = (
    "| data | two-sample: default | chosen | stored | near-copies: default | chosen "
    "| measure: default | chosen | stored | AUC of membership: default | chosen |"
)
N_DIVISIONS = 3


@dataclass(frozen=True)
class Outcome:
    """A data set whose generator was chosen, and the processor's seconds that the trial took."""

    data: TrialSet
    synth: sa.Synthesizer
    seconds: float

    @classmethod
    def of(cls, data: TrialSet, kind: str) -> Outcome:
        """Run the trial."""
        synth = sa.fit(data.source, kind, n_jobs=1, **data.options)
        start = time.process_time()
        assert synth.trial is not None
        assert synth.trial.record
        return cls(data, synth, time.process_time() - start)

    @property
    def record(self) -> TrialRecord:
        """What was tried."""
        assert self.synth.trial is not None
        return self.synth.trial.record

    @property
    def has_changed(self) -> bool:
        """Whether another generator than the default was chosen, or other options of it."""
        return self.record.generator != self.synth.generator_fit.requested.name or bool(self.record.options)

    def line(self) -> str:
        """The row of the first table."""
        record, names = self.record, ("two_sample", "near_copies", "key_measure", "loss")
        first = record.attempts[0] if record.attempts else None
        choices = [one for one in record.attempts if (one.generator, one.options) == (record.generator, record.options)]
        options = ", ".join(f"{name} {_short(value)}" for name, value in record.options.items())
        choice = record.generator + (f" ({options})" if options else "") if self.has_changed else "the default"
        cells = [
            self.data.name,
            f"{self.synth.codec.K}",
            self.synth.generator_fit.requested.name,
            *figures(first, *names),
            choice,
        ]
        cells += figures(choices[0] if choices and self.has_changed else None, *names)
        return "| " + " | ".join([*cells, f"{self.seconds:.1f}"]) + " |"

    def again(self) -> str:
        """The row of the second table."""
        default = self.synth.with_generator(self.synth.generator_fit.requested.name)
        rows = [judge(default, self.synth, seed) for seed in range(N_DIVISIONS)]
        return "| " + " | ".join([self.data.name, *(f"{value:.2f}" for value in np.mean(rows, axis=0))]) + " |"


def judge(default: sa.Synthesizer, chosen: sa.Synthesizer, seed: int) -> list[float]:
    """The figures of the second table, from a half of the items and another one that judges what it gives."""
    kind, codec = default.kind, default.codec
    items = kind.measures.non_overlapping(codec, np.arange(codec.K))
    order = np.random.default_rng([1, seed]).permutation(items)[:MAX_ITEMS]
    n = len(order) // 2
    indices = np.sort(order[:n])
    fitted, held_out = codec.take(codec.stored, indices), codec.take(codec.stored, np.sort(order[n:]))
    refitted = [synth.refit(indices) for synth in (default, chosen)]
    sets = [synth.sample_items(max(n, MIN_DRAWS), seed) for synth in refitted] + [fitted]
    stored, others = kind.measures.comparable(codec, fitted), kind.measures.comparable(codec, held_out)
    ideal = nearest_distances(others, stored)
    two_sample, near, measure, membership = [], [], [], []
    for items_ in sets:
        vectors = kind.measures.comparable(codec, items_)
        pairs = [(others, vectors), tuple(kind.measures.statistics(codec, some) for some in (held_out, items_))]
        two_sample.append(max(two_sample_accuracy(*pair) for pair in pairs if pair[0] is not None))
        near.append(share_near(nearest_distances(vectors, stored), ideal, NEAREST))
        measures = kind.measures.compare(codec.refit(held_out), items_).measures
        values = {one.name: one.value - (one.ideal or 0) for one in measures}
        measure.append(abs(values.get(kind.measures.key.name, math.nan)))
        membership.append(membership_auc(stored, others, vectors))
    return [*two_sample, *near[:2], *measure, *membership[:2]]


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else f"{value}"


def figures(attempt: Attempt | None, *names: str) -> list[str]:
    """Figures of an attempt as text; a dash for those that are not known."""
    values = [getattr(attempt, name, None) for name in names]
    return ["–" if value is None else f"{value:.2f}" for value in values]


def main() -> None:
    """Print both tables of each kind, and the warnings and notes of trials."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trial", description=__doc__.splitlines()[0])
    parser.add_argument("--packages", type=Path, default=Path(".venv/corpus"), help="what `make corpus` installs")
    parser.add_argument("--data", type=Path, default=os.environ.get("STOCHATTN_DATA"), help="the files of the paper")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(SETS)}; all by default")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for kind in options.kinds or SETS:
        print(f"\n## {kind}\n\n{HEAD}\n|{'---|' * HEAD.count(' | ')}---|", flush=True)
        changed = []
        for data in SETS[kind](options.packages, options.data):
            outcome = Outcome.of(data, kind)
            print(outcome.line(), flush=True)
            changed += [outcome] if outcome.has_changed else []
            for note in outcome.record.notes:
                print(f"<!-- {note} -->", flush=True)
        if changed:
            print(f"\n{AGAIN}\n|{'---|' * AGAIN.count(' | ')}---|", flush=True)
        for outcome in changed:
            print(outcome.again(), flush=True)


if __name__ == "__main__":
    main()
