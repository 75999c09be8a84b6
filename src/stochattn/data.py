"""`stochattn.kinds` by its name until version 0.2, for programs that import kinds of data from here."""

import warnings

from . import kinds


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    value = getattr(kinds, name)  # AttributeError for names that it does not have
    warnings.warn(f"stochattn.data is now stochattn.kinds: import {name} from there.", DeprecationWarning, 2)
    return value
