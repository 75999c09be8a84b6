"""Tables: rows of CSV, Parquet and .npy files, of data frames and of matrices."""

from .codec import TableCodec
from .kind import TableKind
from .options import CovarianceOptions, TableHopfieldOptions, TableOptions

__all__ = ["KIND", "CovarianceOptions", "TableCodec", "TableHopfieldOptions", "TableKind", "TableOptions"]

KIND = TableKind()
