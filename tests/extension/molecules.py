"""The least that a kind of data defines: molecules as SMILES strings, in files that end in .smi, one on each line.

Items are a tuple of strings. An array of an item is a one-hot letter for each place, and the length of the string.
"""

from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from stochattn.kinds import (
    Codec,
    Conditioned,
    Format,
    HopfieldOptions,
    InputError,
    Kind,
    NoOptions,
)


@dataclass(frozen=True)
class MoleculeCodec(Codec):
    """SMILES strings of at most `width` letters."""

    stored: tuple
    letters: str
    width: int
    labels: None = None
    notes: tuple = ()

    @classmethod
    def of(cls, smiles):
        return cls(tuple(smiles), "".join(sorted(set("".join(smiles)))), max(map(len, smiles)))

    @property
    def ids(self):
        return tuple(f"molecule {i + 1}" for i in range(len(self.stored)))

    def encode(self, items):
        one_hot = np.zeros((len(items), self.width, len(self.letters)))
        for i, text in enumerate(items):
            for j, letter in enumerate(text[: self.width]):
                one_hot[i, j, self.letters.index(letter)] = 1
        lengths = np.array([[len(text)] for text in items], dtype=float)
        return np.concatenate([one_hot.reshape(len(items), -1), lengths], axis=1)

    def decode(self, arrays, source=None):
        letters = arrays[:, :-1].reshape(len(arrays), self.width, len(self.letters)).argmax(2)
        lengths = np.clip(np.rint(arrays[:, -1]), 1, self.width).astype(int)
        return tuple("".join(self.letters[k] for k in row[:n]) for row, n in zip(letters, lengths, strict=True))

    def refit(self, items):
        letters = "".join(sorted({*self.letters, *"".join(items)}))  # some items may be of other files of a folder
        return MoleculeCodec(tuple(items), letters, max(self.width, *map(len, items)))

    def state(self):
        return {"stored": self.stored, "letters": self.letters, "width": self.width}

    def condition(self, values):
        if set(values) != {"length"}:
            raise InputError(f"a condition is length=NUMBER; got {', '.join(map(str, values))}.")
        return Conditioned(self, (np.array([self.width * len(self.letters)]), np.array([float(values["length"])])))


class MoleculeKind(Kind):
    """Molecules."""

    name, item, items, part = "molecule", "molecule", "molecules", "letter"
    inputs = "molecules (.smi)"
    suffixes = (".smi",)
    generators = MappingProxyType({"hopfield": HopfieldOptions, "gaussian": NoOptions})
    formats = (Format("smi", (".smi",)),)

    def accepts(self, data):
        return isinstance(data, Molecules)

    def codec_of(self, data, options):
        return MoleculeCodec.of(data)

    def read(self, path, options):
        return MoleculeCodec.of(path.read_text().split())

    def codec_from_state(self, state):
        return MoleculeCodec(tuple(state["stored"]), state["letters"], state["width"])

    def parse_condition(self, codec, texts):
        return {name.strip(): int(value) for name, _, value in (text.partition("=") for text in texts)}

    def writer(self, codec, destination, format, settings):
        return Lines(destination)


class Molecules(list):
    """SMILES strings in memory."""


@dataclass(frozen=True)
class Lines:
    """A line for each molecule."""

    destination: object

    def write(self, batch):
        self.destination.write("".join(f"{text}\n" for text in batch.items).encode())

    def close(self):
        pass


KIND = MoleculeKind()


def molecules():
    """Chains of carbon, with oxygen or nitrogen at one of their ends or within, of which no two are equal."""
    chains = [begin + "C" * n + end for n in range(2, 7) for begin in ("", "O", "N") for end in ("", "O", "CO")]
    return Molecules(sorted(set(chains)))
