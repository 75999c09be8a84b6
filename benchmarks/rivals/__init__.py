"""Generators of other authors, fitted as they recommend, one per file: rows (n) like those of a frame."""
