"""Noise in attention as a regulariser of training, against dropout, on few images: see __main__.py."""
