"""Delimited text and spreadsheets: lines, cells, and the notations of numbers."""
