"""Tables: rows of CSV, Parquet and .npy files, of data frames and of matrices."""

from .codec import TableCodec
from .covariance_fit import CovarianceOptions
from .inference import TableOptions
from .kind import TableHopfieldOptions, TableKind

__all__ = ["KIND", "CovarianceOptions", "TableCodec", "TableHopfieldOptions", "TableKind", "TableOptions"]

KIND = TableKind()
