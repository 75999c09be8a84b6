"""The generator of tables: a mixture of kernels around stored rows, within classes."""
