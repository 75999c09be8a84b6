"""Codecs: items of a kind (sequences, pictures, tables, returns) to rows of a bank, and back."""
