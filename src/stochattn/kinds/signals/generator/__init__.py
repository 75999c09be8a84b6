"""The generators of signals: deformations of stored ones in time and value, and windows."""
