"""Tables: rows of CSV, Parquet and .npy files, of data frames and of matrices."""

from .codec import TableCodec
from .columns.inference import TableOptions
from .generator.fit import CovarianceOptions
from .kind import TableHopfieldOptions, TableKind

__all__ = ["KIND", "CovarianceOptions", "TableCodec", "TableHopfieldOptions", "TableKind", "TableOptions"]

KIND = TableKind()
