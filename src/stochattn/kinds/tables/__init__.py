"""Tables: rows of CSV, Parquet and .npy files, of data frames and of matrices."""
