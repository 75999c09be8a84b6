"""Columns of a table: types, cells, dates and scales."""
