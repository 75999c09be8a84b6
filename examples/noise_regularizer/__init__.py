"""Noise in attention as a regularizer of training, against dropout, on few images: see __main__.py."""
