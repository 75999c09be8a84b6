"""The generators of images: deformations of stored ones, and patches."""
