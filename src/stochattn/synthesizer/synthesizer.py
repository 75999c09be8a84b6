"""Synthesizer: a codec and a generator, which together make new items like the stored ones."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._backend.arrays import Array
from .._backend.checks import check_boolean, check_count, check_path, check_positive
from .._backend.parallel import check_jobs
from .._backend.random import SeedLike, seed_of
from ..core.conditioning import selection_mask
from ..core.memory import FilePath
from ..core.metrics import cosine_novelty
from ..kinds.codec import Batch, Codec, Conditioned, Items
from ..kinds.generator import Description, Generator, HasLogDensity, HasRows
from ..kinds.kind import AUTO, AnyKind, GeneratorChoice, choose_generator
from ..kinds.options import InputError, given_options, listed
from ..kinds.registry import kind_for, read_codec
from ..kinds.summary import RunSummary, checksum
from . import drawing, saving
from .fitting import Fit, search_context
from .trial import Trial
from .writing import write_samples

if TYPE_CHECKING:
    from ..evaluation.split_half import SplitHalfResult


MIN_STORED = 8  # below which a note says that they are hardly enough
EARLIER_NAMES = {"asked": "requested", "resolved": "resolved", "n_jobs": "n_jobs"}
"""Attributes of a Synthesizer in 0.1, and those of its fit that take their place."""


@dataclass(frozen=True, eq=False, repr=False)
class Synthesizer:
    """New items like the stored ones. Immutable: `condition`, `subset` and `weight` return another.

    `write`, `report` and `save` replace a file that they wrote earlier, and any other only with `replace=True`.

    generator_fit: the stored items and the generator for them, shared by all that differ only in conditions
    conditions:    values that new items must have, by name
    source, source_sha256: where the stored items come from, and the checksum of that file or folder, for summaries

    >>> import stochattn as sa
    >>> synth = sa.fit(["MKVLA", "MRILA", "MKILS", "MRVLS"])
    >>> synth
    Synthesizer(4 sequences, generator='latent')
    >>> len(synth.condition({1: "K"}).sample(3, rng=0))
    3
    """

    generator_fit: Fit
    conditions: Mapping[Any, Any] = field(default_factory=dict)
    source: str = ""
    source_sha256: str | None = None

    @classmethod
    def of(cls, kind: AnyKind, codec: Codec, generator: str = AUTO, **options: Any) -> Synthesizer:
        """A Synthesizer of the items that a codec stores, all of which count alike."""
        return cls(Fit(kind, codec, choose_generator(kind, generator, options), np.ones(codec.K)))

    @property
    def kind(self) -> AnyKind:
        """The kind of data."""
        return self.generator_fit.kind

    @property
    def codec(self) -> Codec:
        """The stored items, and how they become arrays and back."""
        return self.generator_fit.codec

    @property
    def weights(self) -> Array:
        """How often each stored item counts: (K,)."""
        return self.generator_fit.weights

    @property
    def trial(self) -> Trial | None:
        """What chooses among generators, when one is first fitted; None where the user chose."""
        return self.generator_fit.trial

    @property
    def choice(self) -> GeneratorChoice:
        """The generator and its options: those that the user requests, or that the trial chose."""
        return self.generator_fit.choice

    def __getattr__(self, name: str) -> Any:
        if name not in EARLIER_NAMES:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        place = f"generator_fit.{EARLIER_NAMES[name]}"
        warnings.warn(f"Synthesizer.{name} has moved to Synthesizer.{place}.", DeprecationWarning, stacklevel=2)
        return getattr(self.generator_fit, EARLIER_NAMES[name])

    @cached_property
    def _conditioned(self) -> Conditioned:
        return self.codec.condition(self.conditions) if self.conditions else Conditioned(self.codec, None)

    @cached_property
    def generator(self) -> Generator:
        """The generator, fitted when it is first needed, with its settings if n_jobs says how to search for them."""
        generator, n_jobs = self.generator_fit.generator, self.generator_fit.n_jobs
        if self.conditions:
            generator = generator.condition(self._conditioned.observation)
        if n_jobs is not None:
            with search_context(n_jobs):
                generator.describe()
        return generator

    @property
    def decoder(self) -> Codec:
        """The codec whose items meet the conditions."""
        return self._conditioned.codec

    @cached_property
    def kept(self) -> Array:
        """Indices of the stored items that count."""
        return np.flatnonzero(self.weights > 0)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was dropped, mapped or assumed while reading, and what is known about draws, a line each."""
        too_few = f"only {len(self.kept)} stored {self.kind.items} count: new ones are guesses. Use twenty or more."
        first, *others = (*self.describe().notes, "")
        if self.trial is None or first != self.trial.record.warning:
            first, others = "", [first, *others]
        size = too_few if len(self.kept) < MIN_STORED else ""
        return tuple(filter(None, (first, *self.codec.notes, size, *self._conditioned.notes, *others)))

    def describe(self) -> Description:
        """How the generator draws. What reading assumed or dropped is in `notes`."""
        return self._description

    @cached_property
    def _description(self) -> Description:
        with search_context(self.generator_fit.n_jobs):  # settings may be searched for here
            about = self.generator.describe()
        return about if self.trial is None else replace(about, notes=(*self.trial.record.notes, *about.notes))

    def sample(self, n: int, rng: SeedLike = None, *, n_jobs: int | None = None) -> Any:
        """n new items, as the kind of data presents them: texts, pictures, a data frame.

        rng:    a seed, or a numpy or torch Generator. The first m of n are the m items that a shorter call gives.
        n_jobs: workers, with the same result: -1 for one per core, None for this process or `joblib.parallel_config`
        """
        return self.codec.to_user(self.sample_items(check_count("n", n), seed_of(rng), check_jobs(n_jobs)))

    def sample_items(self, n: int, seed: int, n_jobs: int | None = None) -> Items:
        """n new items, as the codec holds them."""
        blocks = drawing.draw_blocks(drawing.draw_items, self, seed, n, n_jobs)
        return self.codec.join(list(drawing.require_memory(blocks, n, self.kind.items)))

    def batches(self, n: int, seed: int, n_jobs: int | None = None, blocks: range | None = None) -> Iterator[Batch]:
        """n new items in blocks, all or those with these numbers, with what is measured on each of them."""
        return drawing.draw_blocks(drawing.draw_batch, self, seed, n, n_jobs, blocks)

    @property
    def block_size(self) -> int:
        """How many items are drawn at a time."""
        return drawing.choose_block_size(self, drawing.BLOCK, drawing.BLOCK_NUMBERS)

    @cached_property
    def redraws_copies(self) -> bool:
        """Whether new items that equal a stored one are drawn again."""
        return drawing.must_redraw_copies(self)

    def rows(self, items: Items) -> Array:
        """Items as the rows among which novelty is measured: those of the generator's bank, or centred features."""
        features = self.codec.features(items)
        return self.generator.embed(features) if isinstance(self.generator, HasRows) else features - self._mean

    @cached_property
    def stored_rows(self) -> Array:
        """The stored items that count, as such rows: (K_kept, d)."""
        if isinstance(self.generator, HasRows):
            return self.generator.stored_rows
        return self.rows(self.codec.take(self.codec.stored, self.kept))

    @cached_property
    def _mean(self) -> Array:
        return self.codec.features(self.codec.stored).mean(0)

    def novelty(self, items: Items) -> Array:
        """1 − the largest cosine with a stored row; n items -> (n,)."""
        items = self.codec.check_items(items)
        return cosine_novelty(self.rows(items), self.stored_rows)

    def predicted_novelty(self) -> float:
        """The mean novelty of exact draws; NaN for generators that do not sample rows of a bank."""
        return self.generator.predicted_novelty() if isinstance(self.generator, HasRows) else float("nan")

    def predicted_shares(self) -> dict[str, float]:
        """The share of each class among draws, where classes are known and the law gives it; else empty."""
        return drawing.predict_shares(self)

    def log_density(self, items: Any) -> Array:
        """log density of items, in the units of the generator's arrays: for comparing items with each other; (n,)."""
        if not isinstance(self.generator, HasLogDensity):
            raise TypeError(f"the generator {self.choice.name!r} has no density; choose another generator.")
        items, never = self.kind.prepare_for_density(self.codec, items)
        arrays = self.codec.features(items) if isinstance(self.generator, HasRows) else self.codec.encode(items)
        log_density = self.generator.log_density(arrays)
        return log_density if never is None else np.where(never, -np.inf, log_density)

    def condition(self, values: Mapping[Any, Any] | str | None = None, **named: Any) -> Synthesizer:
        """New items given these values, beside those of before: `condition(age=40)`, `condition("40 <= age < 60")`."""
        conditions = dict(self.conditions)
        new = self.kind.parse_condition(self.codec, [values]) if isinstance(values, str) else values or {}
        if not isinstance(new, Mapping):
            rule = (
                "condition takes names and values, such as condition(age=40) or {'age': 40}, or a text such as 'age>40'"
            )
            raise InputError(f"{rule}; got {values!r}. Name what the value is for.")
        for name, value in [*new.items(), *named.items()]:
            earlier = conditions.setdefault(name, value)
            if earlier is not value and not np.array_equal(earlier, value):
                conditions[name] = self.codec.combine(name, earlier, value)
        if not conditions:
            return replace(self, generator_fit=self.generator_fit.with_codec(self.codec.original or self.codec))
        conditioned = self.codec.condition(conditions)  # impossible values are an error here, not at the first draw
        self.kind.check_condition(conditioned.codec, self.choice.options, conditioned.observation)
        fit = self.generator_fit.with_codec(conditioned.codec.unconditioned or self.codec)
        synth = replace(self, generator_fit=fit, conditions=conditions)
        vars(synth)["_conditioned"] = conditioned
        return synth

    def unconditioned(self) -> Synthesizer:
        """The same without conditions."""
        return replace(self, conditions={})

    def subset(self, selection: Any) -> Synthesizer:
        """Draw around these stored items only: (K,) booleans, indices, or the name of a class or several."""
        weights = np.where(self._select(selection, "leaves"), self.weights, 0.0)
        return replace(self, generator_fit=self.generator_fit.with_weights(weights))

    def weight(self, ratio: float, selection: Any) -> Synthesizer:
        """Let these stored items count `ratio` times as often; `selection` as in `subset`."""
        ratio = check_positive("ratio", ratio, "It multiplies how often the selected items count.")
        ratios = np.where(self._select(selection, "selects"), ratio, 1.0)
        return replace(self, generator_fit=self.generator_fit.with_weights(self.weights * ratios))

    def _select(self, selection: Any, verb: str) -> Array:
        """Stored items as booleans (K,), of which at least one counts; `verb` is for the message if none does."""
        names, labels = np.asarray(selection), self.codec.labels
        if names.dtype.kind != "U":
            mask = selection_mask(names, self.codec.K, "selection", "stored items")
        elif labels is None:
            raise InputError("selection names a class, and the stored items have none. Pass booleans or indices.")
        else:
            classes, mask = sorted(set(labels)), np.isin(np.array(labels), names)
            missing = np.setdiff1d(names, classes).tolist()
            if missing:
                raise InputError(f"selection: there is no class {missing[0]!r}; there are {listed(classes, 6)}.")
        if not (self.weights[mask] > 0).any():
            rule = f"selection {verb} none of the {self.codec.K} stored {self.kind.items} that count"
            raise InputError(f"{rule}. Select some of them.")
        return np.asarray(mask)

    def with_generator(self, name: str = AUTO, **options: Any) -> Synthesizer:
        """The same stored items under another generator, or other options of it."""
        fit, requested = self.generator_fit, choose_generator(self.kind, name, options)
        is_declined = fit.trial is None and fit.requested == choose_generator(self.kind, AUTO, {})  # by trial=False
        trial = None if is_declined else Trial.of(self.kind, self.codec, name, requested)
        return replace(self, generator_fit=fit.with_choice(requested, trial))

    def with_choice(self, choice: GeneratorChoice) -> Synthesizer:
        """The same stored items under this generator with these options, without a trial."""
        return replace(self, generator_fit=self.generator_fit.with_choice(choice))

    def with_resolved(self, options: Mapping[str, object]) -> Synthesizer:
        """The same choices, with values of options that a rule chose before, which are not searched again."""
        return replace(self, generator_fit=replace(self.generator_fit, resolved=options))

    def refit(self, indices: Array) -> Synthesizer:
        """The same choices on some of the stored items, which then count alike, without conditions or a new trial."""
        codec = self.codec.refit(self.codec.take(self.codec.stored, indices))
        choice = replace(self.choice, options=self.kind.evaluated_options(self.choice.options))
        return Synthesizer(Fit(self.kind, codec, choice, np.ones(codec.K)))

    def evaluate(self, n: int = 1000, rng: SeedLike = 0, *, n_jobs: int | None = None) -> SplitHalfResult:
        """Split-half validation and privacy: n draws from halves of the stored items against the other halves.

        n_jobs: workers that share the splits, with the same result, as in `sample`; also of `report` and `write`
        """
        from ..evaluation import split_half_validation

        return split_half_validation(self, check_count("n", n), seed_of(rng), n_jobs=check_jobs(n_jobs))

    def explore(self) -> object:
        """What a notebook shows as a live page: a slider from recall to generation, conditions, new items, plots."""
        from ..explorer import in_notebook

        return in_notebook(self)

    def report(
        self,
        path: FilePath,
        n: int = 500,
        rng: SeedLike = 0,
        *,
        quick: bool = False,
        replace: bool = False,
        n_jobs: int | None = None,
    ) -> Path:
        """Write an HTML page on n new items beside the stored ones, `quick` in seconds; returns its path."""
        from ..report import write_report

        path, n, jobs = Path(check_path(path)), check_count("n", n), check_jobs(n_jobs)
        return Path(write_report(self, path, n, seed_of(rng), quick=quick, replace=replace, n_jobs=jobs))

    def write(
        self,
        path: FilePath,
        n: int,
        rng: SeedLike = None,
        format: str | None = None,
        *,
        replace: bool = False,
        n_jobs: int | None = None,
        scheduler: str | None = None,
    ) -> RunSummary:
        """Write n new items to a file, or as a folder of parts by the workers of a Dask scheduler; the summary."""
        check_path(path)
        n, seed, jobs = check_count("n", n), seed_of(rng), check_jobs(n_jobs)
        return write_samples(self, n, seed, os.fspath(path), format, replace=replace, n_jobs=jobs, scheduler=scheduler)

    def save(self, path: FilePath, *, replace: bool = False) -> None:
        """Write everything to one file, as json and arrays; `load` makes the same draws for the same seed."""
        saving.save(self, check_path(path), replace)

    def __repr__(self) -> str:
        is_tried = self.trial is not None and self.trial.is_done  # a line of text is no reason to begin a trial
        choice = self.choice if is_tried else self.generator_fit.requested
        options = "".join(f", {name}={value!r}" for name, value in given_options(choice.options).items())
        count_ = f"{len(self.kept)} of {self.codec.K}" if len(self.kept) < self.codec.K else f"{self.codec.K}"
        conditions = f", conditions={dict(self.conditions)!r}" if self.conditions else ""
        n = len(self.kind.display.column_types(self.codec))
        of = f" of {n} {self.kind.part}{'s' * (n > 1)}" if n else ""
        return f"Synthesizer({count_} {self.kind.items}{of}, generator={choice.name!r}{options}{conditions})"


def fit(
    source: Any,
    kind: str | None = None,
    *,
    generator: str = AUTO,
    trial: bool = True,
    n_jobs: int | None = None,
    **options: Any,
) -> Synthesizer:
    """A Synthesizer of stored items: a file, a folder, an array, a data frame or texts.

    Its `notes` say what reading assumed or dropped; print them once before its draws are used.

    kind:      the kind of data, recognized by default
    generator: "auto" for the one made for this kind of data, or a better one for these items if a trial finds it;
               "hopfield" for the paper's p_beta, or another by name
    trial:     whether "auto" without options of a generator is tried on held-out items when it is first fitted
    options:   of reading and of the generator; one that only another generator has, such as beta, chooses that one
    n_jobs:    workers of joblib for searches, with the same result for any number: `covariance` tries several widths at
               a time; `patches` and `deformations` use so many threads, by default all cores. The rules for beta and
               the calibration of `latent` are steps that depend on each other

    >>> import stochattn as sa
    >>> import pandas as pd
    >>> patients = pd.DataFrame({"age": range(20, 60), "dose": [4.0, 5.5, 6.0, 4.5] * 10})
    >>> sa.fit(patients).condition(age=30).sample(3, rng=0).age.tolist()
    [30, 30, 30]
    """
    jobs = check_jobs(n_jobs)
    check_boolean("trial", trial)
    return fit_kind(kind_for(source, kind), source, kind is None, generator, trial, jobs, options)


def fit_kind(
    data_kind: AnyKind,
    source: Any,
    recognized: bool,
    generator: str,
    trial: bool,
    n_jobs: int | None,
    options: Mapping[str, Any],
) -> Synthesizer:
    """The Synthesizer of items of this kind of data; recognized: whether the user did not name the kind."""
    options = dict(options)
    names = [field.name for field in fields(data_kind.codec_options)]  # some have no help text, and are for Python only
    reading = data_kind.codec_options(**{name: options.pop(name) for name in names if name in options})
    choice = choose_generator(data_kind, generator, options)
    origin: dict[str, Any] = {}
    if isinstance(source, str | os.PathLike):
        codec = read_codec(data_kind, Path(source), reading, recognized)
        origin = {"source": os.fspath(source), "source_sha256": checksum(source)}
    else:
        codec = data_kind.codec_of(source, reading)
    choices = Trial.of(data_kind, codec, generator, choice) if trial else None
    return Synthesizer(Fit(data_kind, codec, choice, np.ones(codec.K), choices, n_jobs=n_jobs), **origin)


def load(path: FilePath) -> Synthesizer:
    """The Synthesizer that `save` wrote; the same seed gives the same draws.

    >>> import os, tempfile, stochattn as sa
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sa.fit(["MKVLA", "MRILA", "MKILS"]).save(os.path.join(folder, "a.synth"))
    ...     again = sa.load(os.path.join(folder, "a.synth"))
    >>> again
    Synthesizer(3 sequences, generator='latent')
    """
    return Synthesizer(**saving.load(check_path(path)))
