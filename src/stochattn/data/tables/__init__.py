"""Tables: rows of CSV, Parquet and .npy files, of data frames and of matrices."""

from .codec import TableCodec
from .inference import TableOptions
from .kind import CovarianceOptions, TableHopfieldOptions, TableKind

__all__ = ["KIND", "CovarianceOptions", "TableCodec", "TableHopfieldOptions", "TableKind", "TableOptions"]

KIND = TableKind()
