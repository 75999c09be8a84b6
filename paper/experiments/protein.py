"""The RRM family PF00076: both tables, composition, identity, temperatures, profile HMM, mutual information."""

from __future__ import annotations

from ..data import Data
from ..family import read_family
from ..results import Result
from .protein_figures import figures
from .protein_study import LEARNED, Study
from .protein_tables import full_table, main_table, temperatures


def run(data: Data, seed: int, quick: bool) -> Result:
    """Tables protein-main and protein, the temperatures, and the figures protein and protein-entropy."""
    study = Study(read_family(data.alignment()), data.profile(), seed, quick)
    rows = {**study.static_rows(), LEARNED: study.learned_row(), **study.chain_rows()}
    rows |= {**study.restored_and_null_rows(), **study.large_rows()}
    tables = [main_table(study, rows), full_table(rows), temperatures(study)]
    return Result(tables, figures(study.family, study.sequences, rows))
