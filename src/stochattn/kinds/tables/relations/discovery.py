"""Relations between columns: those that all stored rows meet, beyond chance, and those that a user states.

A stated relation is a string such as `c = a + b`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import combinations, permutations

import numpy as np

from ...._backend.arrays import Array
from ...._backend.checks import suggest_names
from ... import lazy_pandas as pd
from ...options import InputError, listed
from ..columns.columns import Column, Levels
from ..columns.scales import Ranks
from ..description import ColumnType
from .relations import (
    MAX_LOSS,
    OPERATIONS,
    SECONDS_PER_DAY,
    TOLERANCE,
    ColumnFormula,
    ColumnFunction,
    ColumnOrder,
    ColumnSum,
    Relation,
    Table,
    half_step,
    index_by_target,
    largest_error,
    read_amounts,
    require_met,
    sort_by_sources,
)

MIN_ROWS, MIN_DISTINCT = 20, 5
"""Least rows without missing cells in which a relation holds, and distinct values of a column in a sum or order."""
MAX_LOG_CHANCE = math.log(1e-3)
"""Largest log probability that independent columns would meet a relation, over all pairs together."""
MAX_LOG_CHANCE_OF_ORDER = math.log(0.01)
"""The same for an order, over all pairs unless the columns are dates or have names such as low and high."""
EXTREMES = (("min", "max"), ("minimum", "maximum"), ("lowest", "highest"))
OPPOSITES = (
    *EXTREMES,
    *(("low", "high"), ("lower", "upper"), ("lo", "hi"), ("start", "end"), ("start", "stop"), ("begin", "end")),
    *(("first", "last"), ("from", "to"), ("entry", "exit"), ("diastolic", "systolic")),
    *(("dbp", "sbp"), ("dia", "sys"), ("birth", "death"), ("admission", "discharge")),
)
"""Words in the names of two columns of which the first is at most the second."""
UNARY = ("log", "log10", "log2", "log1p", "sqrt", "exp")
BINARY = ("*", "/", "/^2", "-")
"""Operations of formulas with one source and with two sources, the more frequent ones first."""
N_SCREENED = 64
"""Rows by which formulas are proposed; all rows must then meet them."""
MAX_UNEXPLAINED, MAX_ROUGHNESS, MAX_DIGITS = 1e-3, 0.02, 11
"""Largest share of variance beside a line, and largest relative error of a product, that rounding may explain; the most
digits of factors."""
N_PAIRS = 3 * (MAX_DIGITS - 1) * MAX_DIGITS
"""Pairs of a factor and a shift that are tried for one operation on the same columns."""
TINY = np.finfo(np.float64).tiny
MAX_COLUMNS = 60
"""The most columns of amounts, and of categories, that are searched; with more, none is."""


def discover_relations(
    columns: Sequence[Column], table: Table, label: str | None
) -> tuple[tuple[Relation, ...], tuple[Relation, ...]]:
    """Relations that all stored rows meet and independent columns would hardly meet, and those that may be chance."""
    functions = _find_functions([c for c in columns if c.width], table, label)
    taken = {function.target for function in functions}
    scales = {c.name: c.transform for c in columns if isinstance(c.transform, Ranks) and c.name not in taken}
    varied = {name for name, ranks in scales.items() if len(ranks.values) >= MIN_DISTINCT}
    ordered = [c for c in columns if c.name in varied] if len(scales) <= MAX_COLUMNS else []
    numbers = {c.name: read_amounts(c, table[c.name]) for c in ordered}
    formulas = _find_unary_formulas(ordered, numbers)
    logs = {formula.target for formula in formulas if formula.operation not in ("", "exp")}
    summed = [c for c in ordered if not c.unit and not _is_narrow(c) and c.name not in logs]
    sums = _find_sums({c.name: numbers[c.name] for c in summed}, [largest_error(c) for c in summed])
    sums = _drop_linked(sums, formulas)
    taken = {name for column_sum in sums for name in column_sum.names}
    if taken & {formula.target for formula in formulas}:
        formulas = _find_unary_formulas(ordered, numbers, taken)
    targets = {formula.target for formula in formulas}
    left = [c for c in ordered if c.name not in targets]
    formulas += _find_binary_formulas(left, numbers, taken)
    computed = {column_sum.total for column_sum in sums} | {formula.target for formula in formulas}
    orders, candidates = _find_orders(left, {c.name: numbers[c.name] for c in left}, computed)
    return (*sums, *formulas, *orders, *functions), tuple(candidates)


def _drop_linked(sums: Sequence[ColumnSum], formulas: Sequence[ColumnFormula]) -> list[ColumnSum]:
    """Sums without two columns that a formula links, in one sum or in two, as one of the two is computed."""
    roots = {formula.target: formula.sources[0] for formula in formulas}
    columns, kept = dict[str, str](), list[ColumnSum]()  # the column of each root that is in a sum
    for column_sum in sums:
        of_root = {roots.get(name, name): name for name in column_sum.names}
        is_free = all(columns.get(root, name) == name for root, name in of_root.items())
        if is_free and len(of_root) == len(column_sum.names):
            columns |= of_root
            kept.append(column_sum)
    return kept


def _find_unary_formulas(
    columns: Sequence[Column], numbers: Mapping[str, Array], taken: AbstractSet[str] = frozenset()
) -> list[ColumnFormula]:
    """Copies, other units and logs of another column. The source has smaller steps, or comes first.

    Columns that are `taken` are not targets.
    """
    by_name, formulas = {c.name: c for c in columns}, list[ColumnFormula]()
    # The sort is stable: of columns with equal steps, the first is the source.
    finest = sorted(columns, key=lambda column: (column.name not in taken, half_step(column)))
    log_hypotheses = math.log(max(1, len(columns) ** 2 * len(OPERATIONS) * N_PAIRS))
    for fine, coarse in combinations(finest, 2):
        if fine.unit != coarse.unit or {fine.name, coarse.name} & {f.target for f in formulas}:
            continue
        used = {name for earlier in formulas for name in earlier.sources} | taken
        for formula in _propose(fine, coarse, by_name, numbers):
            if formula.target not in used and _is_certain(formula, by_name, numbers, log_hypotheses):
                formulas.append(formula)
                break
    return formulas


def _sample(numbers: Mapping[str, Array], names: Sequence[str]) -> dict[str, Array]:
    """The amounts of columns in evenly spaced rows in which none is missing; empty for too few rows."""
    rows = np.flatnonzero(~np.isnan([numbers[name] for name in names]).any(0))
    if len(rows) < MIN_ROWS:
        return {}
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), N_SCREENED)).astype(int)]
    return {name: numbers[name][rows] for name in names}


def _propose(
    fine: Column, coarse: Column, columns: Mapping[str, Column], numbers: Mapping[str, Array]
) -> Iterator[ColumnFormula]:
    """Formulas with one source that fit a sample of rows."""
    if not (sample := _sample(numbers, (fine.name, coarse.name))):
        return
    for source, target in ((coarse.name, fine.name), (fine.name, coarse.name)) if not fine.unit else ():
        for operation in UNARY if sample[source].min() >= 0 else ():
            formula = ColumnFormula(target, (source,), operation)
            if np.abs(formula.values([sample[source]]) - sample[target]).max() <= MAX_LOSS * np.ptp(sample[target]):
                yield formula
    x, y = sample[fine.name], sample[coarse.name]
    if np.ptp(x) > 0 and np.ptp(y) > 0 and 1 - np.corrcoef(x, y)[0, 1] ** 2 < MAX_UNEXPLAINED:
        if half_step(fine) < half_step(coarse):  # a multiple of a number that was rounded before
            form = ColumnFormula(fine.name, (coarse.name,), "", is_dated=fine.date_scale is not None)
            exact = half_step(fine) * (1 + 1e-6)
            formulas = _list_simplest(form, columns, numbers)
            yield from (f for f in formulas if (np.abs(f.values([y]) - x) <= exact + TOLERANCE * np.abs(x)).all())
        form = ColumnFormula(coarse.name, (fine.name,), "", is_dated=coarse.date_scale is not None)
        yield from _list_simplest(form, columns, numbers)


def _list_simplest(
    form: ColumnFormula, columns: Mapping[str, Column], numbers: Mapping[str, Array], has_shift: bool = True
) -> Iterator[ColumnFormula]:
    """The formulas of a form that all rows of a sample meet, sorted by the digits of factor and shift.

    Formulas that hold without rounding of the sources come first, as rounding may hide a coarse factor.
    """
    if not (sample := _sample(numbers, form.names)):
        return
    x, y = form.values([sample[name] for name in form.sources]), sample[form.target]
    if has_shift and (np.isfinite(x).all() and np.ptp(x) > 0):
        slope = float(np.cov(x, y)[0, 1] / x.var(ddof=1))
    else:
        slope = float(np.median(y[x != 0] / x[x != 0])) if (x != 0).any() else 0.0
    if not math.isfinite(slope) or slope == 0:
        return
    digits = range(1, MAX_DIGITS)
    factors = [(n, _round_digits(slope, n)) for n in digits]
    factors += [(n, _round_digits(1 / _round_digits(1 / slope, n), 15)) for n in digits]
    middle = _middle_factor(form, numbers, half_step(columns[form.target]))
    factors += [(n, _round_digits(middle, n)) for n in digits]
    factors = [(1, 1.0)] if form.is_dated else factors
    pairs = [(n + m, factor, m) for n, factor in factors for m in (range(MAX_DIGITS) if has_shift else [0])]
    unit = SECONDS_PER_DAY if form.is_dated else 1.0
    formulas = []
    for _, factor, m in sorted(pairs, key=lambda pair: pair[0]):
        # For a copy, a shift halfway between two differences would be within rounding of both.
        shift = float(np.quantile(y - factor * x, 0.5, method="lower" if abs(factor) == 1 else "linear")) / unit
        formulas.append(replace(form, factor=factor, shift=_round_digits(shift, m) if m else 0.0))
    for rounded_sources in (False, True):
        for formula in formulas:
            error, allowed = formula.errors(columns, sample, rounded_sources=rounded_sources)
            if (error <= allowed).all():
                yield formula


def _middle_factor(form: ColumnFormula, numbers: Mapping[str, Array], half: float) -> float:
    """The middle of the factors by which the rounding of the target, of at most `half`, explains all rows.

    A slope is not as precise: rounding moves it further than the last digit of a factor such as that of miles.
    """
    x, y = form.values([numbers[name] for name in form.sources]), numbers[form.target]
    rows = np.isfinite(x) & np.isfinite(y) & (x != 0)
    x, y = x[rows], y[rows]
    ends = (y / x - half / np.abs(x), y / x + half / np.abs(x))
    return float(ends[0].max() + ends[1].min()) / 2 if len(x) else 0.0


def _round_digits(number: float, digits: int) -> float:
    return float(f"{number:.{digits - 1}e}")


def _find_binary_formulas(
    columns: Sequence[Column], numbers: Mapping[str, Array], taken: AbstractSet[str]
) -> list[ColumnFormula]:
    """Ratios and products of two columns, and times between two dates. Columns that are `taken` are not targets."""
    by_name, proposals = {c.name: c for c in columns}, list[ColumnFormula]()
    amounts_only = [c for c in columns if not c.unit]
    dates = [c.name for c in columns if c.date_scale is not None]
    for target in (c for c in amounts_only if c.name not in taken):
        pairs = [("-", (end, start)) for start, end in permutations(dates, 2)]
        pairs += _products(target, amounts_only, numbers)
        proposals += [ColumnFormula(target.name, pair, operation) for operation, pair in pairs]
    # A computed column usually has the most decimals, and products are more frequent than ratios.
    proposals.sort(key=lambda form: (half_step(by_name[form.target]), BINARY.index(form.operation)))
    log_hypotheses = math.log(max(1, len(columns) ** 3 * len(BINARY) * N_PAIRS))
    formulas = list[ColumnFormula]()
    for form in proposals:
        if form.target in {name for formula in formulas for name in formula.names}:
            continue
        for formula in _list_simplest(form, by_name, numbers, has_shift=form.operation == "-"):
            if _is_certain(formula, by_name, numbers, log_hypotheses):
                formulas.append(formula)
                break
    return formulas


def _products(
    target: Column, columns: Sequence[Column], numbers: Mapping[str, Array]
) -> Iterator[tuple[str, tuple[str, str]]]:
    """Operations and pairs of columns whose products or ratios are proportional to the target in a sample of rows."""
    names = [c.name for c in columns]
    rows = np.linspace(0, len(numbers[target.name]) - 1, min(len(numbers[target.name]), N_SCREENED)).astype(int)
    sizes = np.abs([numbers[name][rows] for name in names])
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(sizes > 0, np.log(sizes), np.nan)
        place = names.index(target.name)
        allowed = MAX_ROUGHNESS + half_step(target) / sizes[place]
    first = int(np.argmax(np.nan_to_num(sizes[place])))
    for operation, power in (("*", 1), ("/", -1), ("/^2", -2)):
        constant = logs[place] - logs[:, None] - power * logs[None]  # (first column, second column, row)
        error = np.abs(constant - constant[:, :, first : first + 1])
        for i, j in np.argwhere(~(error > allowed).any(2) & np.isfinite(constant[:, :, first])).tolist():
            if place not in (i, j) and (i <= j if operation == "*" else i != j):
                yield operation, (names[i], names[j])


def _is_certain(
    formula: ColumnFormula, columns: Mapping[str, Column], numbers: Mapping[str, Array], log_hypotheses: float
) -> bool:
    """Whether all rows meet a formula, and uniform numbers in the range of the target would hardly do so by chance."""
    rows = ~np.isnan([numbers[name] for name in formula.names]).any(0)
    amounts_of = {name: numbers[name][rows] for name in formula.names}
    if rows.sum() < MIN_ROWS or not np.ptp(amounts_of[formula.target]) > 0:
        return False
    error, allowed = formula.errors(columns, amounts_of)
    if not (error <= allowed).all():
        return False
    shares = np.clip(2 * allowed / np.ptp(amounts_of[formula.target]), TINY, 1.0)
    return float(np.log(shares).sum()) + log_hypotheses < MAX_LOG_CHANCE


def _is_narrow(column: Column) -> bool:
    """Whether a column has integers of so few bytes that sums may exceed their range."""
    return column.dtype.kind in "iu" and np.dtype(column.dtype.name.lower()).itemsize < 4


def _find_sums(numbers: Mapping[str, Array], largest_errors: Sequence[float]) -> list[ColumnSum]:
    names, sums = list(numbers), []
    if len(names) < 3:
        return []
    matrix = np.stack(list(numbers.values()))
    rows = ~np.isnan(matrix).any(0)
    if rows.sum() < MIN_ROWS:
        return []
    matrix = matrix[:, rows]
    means, scale, totals, terms = matrix.mean(1), np.abs(matrix).max(), set[int](), set[int]()
    for i, j in combinations(range(len(names)), 2):
        near = np.flatnonzero(np.abs(means[i] + means[j] - means) <= 1e-6 * max(scale, 1e-300))
        for k in near.tolist():
            error = np.abs(matrix[i] + matrix[j] - matrix[k])
            allowed = np.minimum(TOLERANCE * np.abs(matrix[[i, j, k]]).max(0), largest_errors[k])
            # A column that a sum determines is in no other sum.
            if k in (i, j) or {i, j, k} & totals or k in terms or (error > allowed).any():
                continue
            sums.append(ColumnSum(names[k], (names[i], names[j])))
            totals.add(k)
            terms |= {i, j}
    return sums


def _find_orders(
    columns: Sequence[Column], numbers: Mapping[str, Array], computed: AbstractSet[str]
) -> tuple[list[ColumnOrder], list[ColumnOrder]]:
    """Orders a <= b that are certain, and those that may be chance, without orders that follow from others.

    Columns that sums or formulas determine are left out.
    """
    units = {c.name: c.unit for c in columns}
    log_pairs = math.log(max(1, len(numbers) * (len(numbers) - 1)))
    certain, candidates = set[tuple[str, str]](), dict[tuple[str, str], float]()
    for low, high in permutations(numbers, 2):
        if units[low] != units[high] or {low, high} & computed:
            continue
        a, b = numbers[low], numbers[high]
        rows = ~(np.isnan(a) | np.isnan(b))
        a, b = a[rows], b[rows]
        if len(a) < MIN_ROWS or (a > b).any() or (a == b).all():
            continue
        chance = log_chance_of_order(a, b)
        if (units[low] or _names_are_opposite(low, high)) and chance < MAX_LOG_CHANCE_OF_ORDER:
            certain.add((low, high))
        elif chance + log_pairs < MAX_LOG_CHANCE_OF_ORDER:
            scales = [b - a]
            if not units[low] and min(a.min(), b.min()) >= 0:
                scales.append(np.log(np.maximum(b, TINY)) - np.log(np.maximum(a, TINY)))
            at_risk = (a > b.min()) & (b < a.max())
            chances = [log_chance_of_no_negative(differences[at_risk]) for differences in scales]
            if max(chances) + log_pairs < MAX_LOG_CHANCE_OF_ORDER:
                certain.add((low, high))
            else:
                candidates[low, high] = chance
    implied = _list_implied(certain | set(candidates))
    likely = sorted(set(candidates) - implied - _list_implied(certain), key=lambda pair: candidates[pair])
    orders = sorted(certain - _list_implied(certain))
    return [ColumnOrder(*pair) for pair in orders], [ColumnOrder(*pair) for pair in likely]


def _list_implied(orders: AbstractSet[tuple[str, str]]) -> set[tuple[str, str]]:
    """The orders a <= d that follow from two others, a <= b and b <= d."""
    return {(a, d) for a, b in orders for c, d in orders if b == c}


def log_chance_of_order(low: Array, high: Array) -> float:
    """log of the share of permutations of one column (n,) against the other that have low <= high in all rows.

    The i-th smallest high number can take any of the low numbers that do not exceed it, less the i − 1 taken before.
    """
    n = len(low)
    choices = np.searchsorted(np.sort(low), np.sort(high), side="right") - np.arange(n)
    return float(np.log(choices / np.arange(n, 0, -1)).sum())


def log_chance_of_no_negative(differences: Array) -> float:
    """log probability that none of n numbers (n,) is negative under their kernel density estimate.

    The difference of two columns that merely correlate has a density that decreases smoothly towards zero; a relation
    ends it at zero.
    """
    from scipy.special import ndtr

    if len(differences) < 2:
        return 0.0
    spread = min(differences.std(), np.subtract(*np.quantile(differences, [0.75, 0.25])) / 1.34) or differences.std()
    width = 0.9 * spread * len(differences) ** -0.2  # Silverman's rule (1986, equation 3.31)
    return 0.0 if width == 0 else len(differences) * math.log1p(-float(ndtr(-differences / width).mean()))


def _names_are_opposite(low: str, high: str) -> bool:
    """Whether names tell that one column is at most the other, such as MinPrice and MaxPrice, or MinPrice and Price."""
    low, high = (re.sub(r"[\W_]", "", name).lower() for name in (low, high))
    larger = {low.replace(few, many) for few, many in OPPOSITES if few in low}
    larger |= {low.replace(few, "") for few, _ in EXTREMES if few in low}
    return high in larger or low in {high.replace(many, "") for _, many in EXTREMES if many in high}


def _find_functions(columns: Sequence[Column], table: Table, label: str | None) -> list[ColumnFunction]:
    """Columns that a column of categories determines; of two that determine each other, the label is the source."""
    sources = [c for c in columns if isinstance(c.transform, Levels) and len(c.transform.values) > 2]
    sources.sort(key=lambda c: c.name != label)
    targets = [c for c in columns if c.type not in (ColumnType.DATE, ColumnType.NUMERIC)]
    functions: list[ColumnFunction] = []
    if not 0 < len(sources) <= MAX_COLUMNS or len(targets) > 2 * MAX_COLUMNS:
        return []
    n_pairs = len(sources) * len(targets)
    codes = {name: pd.factorize(table[name].array)[0] for name in {c.name for c in (*sources, *targets)}}
    for source in sources:
        for target in targets:
            determined = {function.target for function in functions}
            used = determined | {function.source for function in functions}
            if source.name == target.name or target.name in used or source.name in determined:
                continue
            pair = codes[source.name], codes[target.name]
            if _determines(*pair) and _is_significant(*pair, n_pairs):
                functions.append(ColumnFunction(source.name, target.name, both_ways=_determines(*reversed(pair))))
    return functions


def _determines(source: Array, target: Array) -> bool:
    """Whether rows with equal codes (n,) of the source have equal codes of the target, where none is missing."""
    rows = (source >= 0) & (target >= 0)
    image = np.zeros(source.max(initial=0) + 1, dtype=np.intp)
    image[source[rows]] = target[rows]
    return bool((image[source[rows]] == target[rows]).all())


def _is_significant(source: Array, target: Array, n_pairs: int) -> bool:
    """Whether an independent target would hardly have equal codes (n,) in all rows with the same source, by chance."""
    rows = (source >= 0) & (target >= 0)
    n = int(rows.sum())
    if n < MIN_ROWS:
        return False
    counts, shares = (np.bincount(codes[rows]) for codes in (source, target))
    counts, log_shares = counts[counts > 0], np.log(shares[shares > 0] / n)
    # Logs avoid the underflow of a share to the power of a large count.
    log_chance = sum(float(np.logaddexp.reduce(count * log_shares)) for count in counts.tolist())
    return log_chance + math.log(n_pairs) < MAX_LOG_CHANCE


NONE = "none"
NUMBER = r"-?\d+(?:\.\d*)?(?:e[+-]?\d+)?"
FORM = "c = a + b, c = a / b, c = 1000 * a, a <= b, a < b, code -> name or code <-> name"
SIGNS = re.compile(r"\s*(<->|->|<=|>=|<|>|=)\s*")


def parse_relations(
    rules: Sequence[str], columns: Sequence[Column], table: Table, must_hold: bool = True
) -> tuple[Relation, ...]:
    """The relations that strings state; InputError where one has another form, an unknown column or does not hold.

    must_hold: whether to check all rows, which is not needed for a part of rows that were checked
    """
    if list(rules) == [NONE]:
        return ()
    by_name = {column.name: column for column in columns if column.width}
    relations = tuple(_parse(str(rule), by_name) for rule in rules)
    formulas = [relation for relation in relations if isinstance(relation, ColumnFormula)]
    computed = sort_by_sources(formulas, lambda formula: formula.names)
    for relation in relations:
        _require_types(relation, by_name)
        for second in relations:
            only_target = second in computed and not isinstance(relation, ColumnFunction)
            names = second.names[:1] if only_target else second.names
            if second is not relation and (shared := set(index_by_target([relation])) & set(names)):
                why = f"determines {min(shared)!r}, which {str(second)!r} names too"
                raise InputError(f"constraints: {str(relation)!r} {why}. Leave one of the two out.")
    if must_hold:
        require_met(relations, by_name, table)
    return relations


def _parse(text: str, columns: Mapping[str, Column]) -> Relation:
    parts = SIGNS.split(text)
    sides = [part.strip() for part in parts[::2]]
    if len(parts) != 3 or not all(sides):
        raise InputError(f"constraints: {text!r} must have the form {FORM}.")
    left, sign, right = sides[0], parts[1], sides[1]
    if sign == "=":
        if (formula := _parse_formula(left, right, columns)) is not None:
            return formula
        total, *terms = (_require_column(name, columns, text) for name in (left, *_split_terms(right, columns)))
        return ColumnSum(total, tuple(terms))
    first, second = (_require_column(name, columns, text) for name in (left, right))
    if sign in ("->", "<->"):
        return ColumnFunction(first, second, sign == "<->")
    low, high = (first, second) if sign[0] == "<" else (second, first)
    return ColumnOrder(low, high, strict=len(sign) == 1)


def _parse_formula(target: str, text: str, columns: Mapping[str, Column]) -> ColumnFormula | None:
    """The formula FACTOR * OPERATION + SHIFT that a text states, or None; factor and shift may be left out."""
    is_dated = target in columns and columns[target].date_scale is not None
    shifted = re.fullmatch(rf"(.+?)\s+([+-])\s+({NUMBER})( days)?", text)
    for body, shift in ((text, 0.0), *([(shifted[1], float(f"{shifted[2]}{shifted[3]}"))] if shifted else [])):
        scaled = re.fullmatch(rf"({NUMBER}) \* (.+)", body)
        for term, factor in ((body, 1.0), *([(scaled[2], float(scaled[1]))] if scaled else [])):
            if (parts := _parse_operation(term, columns)) is not None:
                target = _require_column(target, columns, text)
                return ColumnFormula(target, parts[1], parts[0], factor, shift, is_dated)
    return None


def _parse_operation(text: str, columns: Mapping[str, Column]) -> tuple[str, tuple[str, ...]] | None:
    """The operation that a text states and its one or two columns, or None."""
    if text in columns:
        return "", (text,)
    call = re.fullmatch(rf"({'|'.join(UNARY)})\((.+)\)", text)
    if call and call[2] in columns:
        return call[1], (call[2],)
    inner = text[1:-1] if text.startswith("(") and text.endswith(")") else text
    for sign in ("*", "/", "-"):
        for place in (match.start() for match in re.finditer(re.escape(f" {sign} "), inner)):
            first, second = inner[:place].strip(), inner[place + 3 :].strip()
            power = "^2" if sign == "/" and second not in columns and second.endswith("^2") else ""
            second = second.removesuffix(power)
            are_dates = all(name in columns and columns[name].date_scale is not None for name in (first, second))
            if first in columns and second in columns and are_dates == (sign == "-"):
                return sign + power, (first, second)
    return None


def _split_terms(text: str, columns: Mapping[str, Column]) -> list[str]:
    """The names between plus signs; a name may contain such a sign itself."""
    if text in columns:
        return [text]
    return [part.strip() for part in text.split(" + " if " + " in text else "+")]


def _require_column(name: str, columns: Mapping[str, Column], text: str) -> str:
    if name in columns:
        return name
    offered = f"{suggest_names(name, list(columns))}Columns that are modeled are {listed(list(columns))}."
    raise InputError(f"constraints: {text!r} names {name!r}, which is not a modeled column. {offered}")


def _require_types(relation: Relation, columns: Mapping[str, Column]) -> None:
    if len(set(relation.names)) < len(relation.names):
        raise InputError(f"constraints: {str(relation)!r} names a column twice. Name different ones.")
    if isinstance(relation, ColumnFunction):
        if not isinstance(columns[relation.source].transform, Levels):
            problem = f"{relation.source!r} must hold categories, and is {columns[relation.source].type}"
            raise InputError(f"constraints: {str(relation)!r}: {problem}. Set its type with columns.")
        return
    is_shift = isinstance(relation, ColumnFormula) and relation.is_dated and relation.factor == 1
    is_difference = isinstance(relation, ColumnFormula) and relation.operation == "-"
    only_numbers = not (isinstance(relation, ColumnOrder) or is_shift or is_difference)
    for name in relation.names:
        column = columns[name]
        if not isinstance(column.transform, Ranks) or (only_numbers and column.date_scale is not None):
            needed = "numbers" if only_numbers else "numbers or dates"
            raise InputError(f"constraints: {str(relation)!r}: {name!r} must hold {needed}, and is {column.type}.")
    units = {columns[name].unit or "numbers" for name in relation.names}
    if isinstance(relation, ColumnOrder) and len(units) > 1:
        compared = " with ".join(sorted(units))
        raise InputError(f"constraints: {str(relation)!r} compares {compared}. Name columns of one unit.")
