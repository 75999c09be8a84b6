"""Draws in features and their decoder, on images whose parts are known."""

import numpy as np
import pytest

from paper.beyond import features
from paper.data import Data

SIDE = 12


def halves():
    """Two images, and the patterns that are their left and right halves."""
    rng = np.random.default_rng(0)
    left, right = rng.random((2, SIDE, SIDE // 2)), rng.random((2, SIDE, SIDE // 2))
    kinds = [(0, 0), (1, 1)]
    return np.stack([np.hstack([left[i], right[j]]).ravel() for i, j in kinds]), left, right


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_a_stored_image_decodes_to_itself(folder):
    rows = unit(np.random.default_rng(1).random((20, SIDE**2)))
    parts = features.Parts(rows, features.pixel_encoder(SIDE))
    np.testing.assert_allclose(parts.decode(np.asarray(parts.bank.patterns)), rows, atol=1e-6)
    np.testing.assert_array_equal(parts.nearest_images(np.asarray(parts.bank.patterns)), rows)


def test_a_draw_is_decoded_part_by_part():
    """Two stored images; a draw with the left part of one and the right part of the other is decoded to that image."""
    rows, left, right = halves()
    parts = features.Parts(unit(rows), features.pixel_encoder(SIDE))
    mixed = np.hstack([left[0], right[1]]).ravel()[None]
    made = parts.decode(parts.encoder.apply(unit(mixed)).reshape(1, -1)).reshape(SIDE, SIDE)
    expected = [row.reshape(SIDE, SIDE) for row in unit(rows)]

    def cosine(a, b):
        return float((a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b))

    assert cosine(made[:, :2], expected[0][:, :2]) > 0.99 > cosine(made[:, :2], expected[1][:, :2])
    assert cosine(made[:, 10:], expected[1][:, 10:]) > 0.99 > cosine(made[:, 10:], expected[0][:, 10:])


def test_the_encoder_never_sees_the_stored_digit_and_has_one_cell_per_block(folder):
    data = Data.locate(folder)
    seen = []

    class Watched:
        n_digits = data.n_digits

        @staticmethod
        def digits(digit, n):
            seen.append(digit)
            return data.digits(digit, n)

    encoder = features.learned_encoder(Watched(), 0, True)
    assert sorted(seen) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    rows = data.digits(3, 5).patterns
    found = encoder.apply(rows)
    assert found.shape == (5, 3, 3, features.CHANNELS)
    again = features.learned_encoder(data, 0, True)
    np.testing.assert_array_equal(again.apply(rows), found)
    assert found.std() > 0


@pytest.mark.parametrize("side", [10, 12, 28])
def test_the_parts_cover_every_pixel(side):
    n_cells = -(-side // features.BLOCK)
    covered = np.zeros(side)
    for cell in range(n_cells):
        covered[features._pixels(cell, side)] += 1
    assert covered.min() >= 1
