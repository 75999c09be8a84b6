"""Protein families: aligned sequences, read from alignment files or given as strings."""
