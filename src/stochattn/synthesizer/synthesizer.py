"""Synthesizer: a codec and a generator, which together make new items like the stored ones.

Conditions do not change a fit: a Synthesizer shares its `Fit` with all those that `condition` makes of it. The file of
a synthesizer holds JSON and arrays, from which the same draws follow for the same seed.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._backend.arrays import Array, free_memory, gigabytes
from .._backend.checks import check_boolean, check_count, check_path, check_positive
from .._backend.files import require_file
from .._backend.parallel import check_jobs
from .._backend.random import Purpose, SeedLike, generator, seed_of
from .._backend.state import load_format, read_format, save_state
from .._version import __version__
from ..core.conditioning import selection_mask
from ..core.memory import FilePath
from ..core.metrics import cosine_novelty
from ..kinds.codec import Batch, Codec, Conditioned, Items, plain_conditions, restore_conditions
from ..kinds.generator import Adjustable, Description, Generator, HasLogDensity, HasRows
from ..kinds.kind import AUTO, AnyKind, GeneratorChoice, choose_generator
from ..kinds.options import InputError, given_options, listed, option_fields, rename_former
from ..kinds.registry import kind_for, kind_of, parts_in
from ..kinds.summary import RunSummary, TrialRecord, checksum
from . import drawing
from .drawing import search_context
from .trial import MAX_COPIES, Trial
from .writing import write_samples

if TYPE_CHECKING:
    from ..evaluation.split_half import SplitHalfResult


N_CLASS_DRAWS, MIN_CLASS_DRAWS = 40_000, 4096  # attempts that predict shares of classes, and the fewest draws
N_TRIED = 256  # draws by which the share of copies is estimated
COPIES = 2  # copies of new items in memory while blocks are joined
MIN_STORED = 8  # below which a note says that they are hardly enough
FILE_NAME = "stochattn synthesizer"
FORMAT = f"{FILE_NAME} 2"
EARLIER_NAMES = {"asked": "requested", "resolved": "resolved", "n_jobs": "n_jobs"}  # in 0.1, and in the fit now


@dataclass(frozen=True, eq=False)
class Fit:
    """Stored items and the generator that is fitted on them. Immutable: `with_codec` and `change` return another.

    requested: the generator and options that the user requests; `choice` is what is used
    weights:   (K,) of the stored items
    trial:     chooses among generators when one is first fitted; None if the user chose
    resolved:  options that a rule chose in an earlier session, which need not be searched again
    n_jobs:    workers of searches, as in `fit`
    """

    kind: AnyKind
    codec: Codec
    requested: GeneratorChoice
    weights: Array
    trial: Trial | None = None
    resolved: Mapping[str, object] = field(default_factory=dict)
    n_jobs: int | None = None
    _of_codec: dict[Codec, Fit] = field(default_factory=dict, init=False, repr=False)

    @property
    def choice(self) -> GeneratorChoice:
        """The generator and its options: those that the user requests, or that the trial chose."""
        if self.trial is None:
            return self.requested
        with search_context(self.n_jobs):
            return self.trial.choice

    @cached_property
    def generator(self) -> Generator:
        """The generator, without conditions, fitted when it is first needed."""
        options = replace(self.choice.options, **self.resolved)
        with search_context(self.n_jobs):
            return self.kind.fit_generator(self.choice.name, self.codec, self.weights, options)

    def with_codec(self, codec: Codec) -> Fit:
        """The fit of another codec of the same items, always the same object, so that it is fitted once."""
        if codec is self.codec:
            return self
        return self._of_codec.setdefault(codec, replace(self, codec=codec, resolved={}))

    def change(self, **changes: Any) -> Fit:
        """The fit with other weights or of another generator, which is this one adjusted where that gives the same."""
        changed = replace(self, resolved={}, **changes)
        fitted = vars(self).get("generator")
        if not isinstance(fitted, Adjustable) or self.choice.name != changed.choice.name:
            return changed
        before, after = self.choice.options, changed.choice.options
        names = option_fields(type(after))
        differing = {name for name in names if getattr(before, name) != getattr(after, name)}
        if differing <= fitted.adjustable <= set(names):
            options = {name: getattr(after, name) for name in fitted.adjustable}
            with search_context(None):
                adjusted = fitted.adjusted(changed.weights, **options)
            if adjusted is not None:
                vars(changed)["generator"] = adjusted
        return changed


@dataclass(frozen=True, eq=False, repr=False)
class Synthesizer:
    """New items like the stored ones. Immutable: `condition`, `subset` and `weight` return another.

    `write`, `report` and `save` replace a file that they wrote earlier, and any other only with `replace=True`.

    generator_fit: the stored items and the generator for them, which synthesizers with other conditions share
    conditions:    values that new items must have, by name
    source, source_sha256: the file or folder of the stored items, and its checksum, for summaries

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
        """The weights of the stored items: (K,)."""
        return self.generator_fit.weights

    @property
    def trial(self) -> Trial | None:
        """The trial that chooses among generators when one is first fitted; None if the user chose."""
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
        """The generator, fitted when it is first needed; with n_jobs, workers search its settings here."""
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
        """Indices of the stored items with positive weight."""
        return np.flatnonzero(self.weights > 0)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was dropped, mapped or assumed while reading, and what is known about draws, a line each."""
        too_few = f"only {len(self.kept)} stored {self.kind.items} count: new ones are guesses. Use twenty or more."
        size = too_few if len(self.kept) < MIN_STORED else ""
        warning = "" if self.trial is None else self.trial.record.warning
        others = (note for note in self.describe().notes if note != warning)
        return tuple(filter(None, (warning, *self.codec.notes, size, *self._conditioned.notes, *others)))

    def describe(self) -> Description:
        """How the generator draws. What reading assumed or dropped is in `notes`."""
        return self._description

    @cached_property
    def _description(self) -> Description:
        with search_context(self.generator_fit.n_jobs):  # settings may be searched for here
            about = self.generator.describe()
        return about if self.trial is None else replace(about, notes=(*self.trial.record.notes, *about.notes))

    def sample(self, n: int, rng: SeedLike = None, *, n_jobs: int | None = None) -> Any:
        """n new items as the kind of data presents them: strings, images, a data frame.

        rng:    a seed, or a numpy or torch Generator. The first m of n are the m items that a shorter call gives.
        n_jobs: workers, with the same result: -1 for one per core, None for this process or `joblib.parallel_config`
        """
        return self.codec.to_user(self.sample_items(check_count("n", n), seed_of(rng), check_jobs(n_jobs)))

    def sample_items(self, n: int, seed: int, n_jobs: int | None = None) -> Items:
        """n new items as the codec holds them."""
        blocks: list[Items] = []
        for items in drawing.draw_blocks(drawing.draw_items, self, seed, n, n_jobs):
            if not blocks and len(items) < n:
                needed, free = COPIES * n * drawing.count_bytes(items) // len(items), free_memory()
                if free is not None and needed > free:
                    room = f"{gigabytes(needed)} of memory, and {gigabytes(free)} are free"
                    rule = f"n={n:,} new {self.kind.items} take {room}"
                    raise InputError(f"{rule}. Draw fewer, or `write` them to a file in blocks.")
            blocks.append(items)
        return self.codec.join(blocks)

    def batches(self, n: int, seed: int, n_jobs: int | None = None, blocks: range | None = None) -> Iterator[Batch]:
        """n new items in blocks, or only the blocks with these numbers, with what is measured on each item."""
        return drawing.draw_blocks(drawing.draw_batch, self, seed, n, n_jobs, blocks)

    @property
    def block_size(self) -> int:
        """How many items are drawn at a time: as the generator declares, and few if each holds many numbers."""
        item = self.codec.take(self.codec.stored, np.arange(1))
        numbers = getattr(self.generator, "numbers_per_item", None) or self.codec.features(item).shape[1]
        declared = getattr(self.generator, "block_items", drawing.BLOCK)
        return int(max(min(drawing.BLOCK, drawing.BLOCK_NUMBERS // numbers, declared), 1))

    @cached_property
    def redraws_copies(self) -> bool:
        """Whether draws copy stored items more often than stored items repeat each other, and less than half copy."""
        _, _, is_copy = drawing.draw_and_decode(self, N_TRIED, generator(0, Purpose.RULE))
        return bool(self.codec.share_repeated <= np.asarray(is_copy).mean() <= MAX_COPIES)

    def rows(self, items: Items) -> Array:
        """Items as the rows among which novelty is measured: rows of the generator's bank, or centered features."""
        features = self.codec.features(items)
        return self.generator.embed(features) if isinstance(self.generator, HasRows) else features - self._mean

    @cached_property
    def stored_rows(self) -> Array:
        """The stored items with positive weight as such rows: (K_kept, d)."""
        if isinstance(self.generator, HasRows):
            return self.generator.stored_rows
        return self.rows(self.codec.take(self.codec.stored, self.kept))

    @cached_property
    def _mean(self) -> Array:
        return self.codec.features(self.codec.stored).mean(0)

    def novelty(self, items: Items) -> Array:
        """1 − the largest cosine with a stored row, for each item: (n,)."""
        return cosine_novelty(self.rows(self.codec.check_items(items)), self.stored_rows)

    def predicted_novelty(self) -> float:
        """The mean novelty of exact draws; NaN for generators that do not sample rows of a bank."""
        return self.generator.predicted_novelty() if isinstance(self.generator, HasRows) else float("nan")

    def predicted_shares(self) -> dict[str, float]:
        """The predicted share of each class among draws; empty without classes, or if the mixture does not give it."""
        labels, fitted, measures = self.codec.labels, self.generator, self.kind.measures
        if labels is None:
            return {}
        if measures.items_have_labels:
            n = round(N_CLASS_DRAWS * getattr(fitted, "acceptance", 1.0))
            generated = fitted.sample(max(n, MIN_CLASS_DRAWS), generator(0, Purpose.RULE))
            items = self.decoder.decode(generated.values, generated.source)
            classes = measures.labels_of(self.codec, items, generated.source)
            shares = np.full(len(classes), 1 / len(classes))
        elif isinstance(fitted, HasRows):
            classes, shares = np.array(labels), fitted.source_probabilities()
        else:
            return {}
        return {name: float(shares[classes == name].sum()) for name in sorted(set(labels))}

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
            rule = "condition takes names and values, such as age=40 or {'age': 40}, or a string such as 'age>40'"
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
        """Draw around these stored items only: (K,) booleans, indices, or the names of one or several classes."""
        weights = np.where(self._select(selection, "leaves"), self.weights, 0.0)
        return replace(self, generator_fit=self.generator_fit.change(weights=weights))

    def weight(self, ratio: float, selection: Any) -> Synthesizer:
        """Multiply the weights of these stored items by `ratio`; `selection` as in `subset`."""
        ratio = check_positive("ratio", ratio, "It multiplies how often the selected items count.")
        ratios = np.where(self._select(selection, "selects"), ratio, 1.0)
        return replace(self, generator_fit=self.generator_fit.change(weights=self.weights * ratios))

    def _select(self, selection: Any, verb: str) -> Array:
        """Stored items as booleans (K,), at least one with positive weight; `verb` is for the message without one."""
        names, labels = np.asarray(selection), self.codec.labels
        if names.dtype.kind != "U":
            mask = selection_mask(names, self.codec.K, "stored items")
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
        return replace(self, generator_fit=fit.change(requested=requested, trial=trial))

    def with_resolved(self, options: Mapping[str, object]) -> Synthesizer:
        """The same choices, with values of options that a rule chose before, which are not searched again."""
        return replace(self, generator_fit=replace(self.generator_fit, resolved=options))

    def refit(self, indices: Array) -> Synthesizer:
        """The same choices on some of the stored items with equal weights, without conditions or a new trial."""
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
        """A live page for a notebook: a slider from recall to generation, conditions, new items, plots."""
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
        """Write an HTML page about n new items beside the stored ones, `quick` in seconds; returns its path."""
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
        """Write n new items to a file, or let the workers of a Dask scheduler write a folder; returns the summary."""
        check_path(path)
        n, seed, jobs = check_count("n", n), seed_of(rng), check_jobs(n_jobs)
        return write_samples(self, n, seed, os.fspath(path), format, replace=replace, n_jobs=jobs, scheduler=scheduler)

    def save(self, path: FilePath, *, replace: bool = False) -> None:
        """Write everything to one file as JSON and arrays; `load` makes the same draws for the same seed."""
        path = check_path(path)
        name = f"path {os.fspath(path)!r}"
        check = partial(require_file, name, path, lambda old: FILE_NAME in read_format(old), replace)
        check()
        options = given_options(self.choice.options)
        if functions := [name for name, value in options.items() if callable(value)]:
            rule = f"a synthesizer with {functions[0]}= cannot be saved: a file cannot hold a function"
            raise TypeError(f"{rule}. Fit again where you need it, write new items, or leave {functions[0]} out.")
        state = {
            "format": FORMAT,
            "version": __version__,
            "kind": self.kind.name,
            "codec": self.codec.state(),
            "generator": self.choice.name,
            "options": options,
            "resolved": self.describe().resolved,
            "trial": None if self.trial is None else asdict(self.trial.record),
            "weights": self.weights,
            "source": self.source,
            "source_sha256": self.source_sha256,
            "conditions": plain_conditions(self.conditions),
        }
        save_state(path, state, check)

    def __repr__(self) -> str:
        is_tried = self.trial is not None and self.trial.is_done  # printing a synthesizer must not begin a trial
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
    """A Synthesizer of stored items: a file, a folder, an array, a data frame or strings.

    Its `notes` say what reading assumed or dropped; print them once before its draws are used.

    kind:      the kind of data, recognized by default
    generator: "auto" for the generator made for this kind of data, or a better one for these items if a trial finds
               one; "hopfield" for the paper's p_beta, or the name of another generator
    trial:     whether "auto" without options of a generator is tried on held-out items when it is first fitted
    options:   of reading and of the generator; one that only another generator has, such as beta, chooses that one
    n_jobs:    workers of joblib for searches, with the same result for any number: `covariance` tries several widths at
               a time; `patches` and `deformations` use as many threads, by default all cores. The rules for beta and
               the calibration of `latent` are steps that depend on each other

    >>> import stochattn as sa
    >>> import pandas as pd
    >>> patients = pd.DataFrame({"age": range(20, 60), "dose": [4.0, 5.5, 6.0, 4.5] * 10})
    >>> sa.fit(patients).condition(age=30).sample(3, rng=0).age.tolist()
    [30, 30, 30]
    """
    jobs = check_jobs(n_jobs)
    check_boolean("trial", trial)
    data_kind = kind_for(source, kind)
    renamed = rename_former(options, option_fields(data_kind.codec_options))
    if renamed.keys() != options.keys():
        warnings.warn("colour is now spelled color.", DeprecationWarning, stacklevel=2)
    return fit_kind(data_kind, source, kind is None, generator, trial, jobs, renamed)


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
    path = Path(source) if isinstance(source, str | os.PathLike) else None
    if path is None:
        codec = data_kind.codec_of(source, reading)
    elif parts := parts_in(path):
        codec = data_kind.read_files(parts, reading)
    else:
        codec = data_kind.read_recognized(path, reading) if recognized else data_kind.read(path, reading)
    choices = Trial.of(data_kind, codec, generator, choice) if trial else None
    fit = Fit(data_kind, codec, choice, np.ones(codec.K), choices, n_jobs=n_jobs)
    return Synthesizer(fit) if path is None else Synthesizer(fit, {}, os.fspath(source), checksum(path))


def load(path: FilePath) -> Synthesizer:
    """The Synthesizer that `save` wrote; the same seed gives the same draws.

    >>> import os, tempfile, stochattn as sa
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sa.fit(["MKVLA", "MRILA", "MKILS"]).save(os.path.join(folder, "a.synth"))
    ...     again = sa.load(os.path.join(folder, "a.synth"))
    >>> again
    Synthesizer(3 sequences, generator='latent')
    """
    how = "Synthesizer.save", __version__, "Fit the data and save it again."
    state: dict[str, Any] = load_format(check_path(path), FORMAT, *how)
    kind = kind_of(state["kind"])
    choice = GeneratorChoice(state["generator"], kind.generators[state["generator"]](**state["options"]))
    codec, trial = kind.codec_from_state(state["codec"]), None
    if state.get("trial") is not None:
        trial = Trial(kind, codec, choice)
        vars(trial)["record"] = TrialRecord.from_plain(state["trial"])
    fit = Fit(kind, codec, choice, state["weights"], trial, state.get("resolved", {}))
    source = {name: state[name] for name in ("source", "source_sha256") if name in state}
    return Synthesizer(fit, restore_conditions(state["conditions"]), **source)
