"""`python -m stochattn`, and the program `stochattn`."""

import gc

from ._backend.console import CtrlCEndsAtOnce


def main() -> None:
    """Run the command line; everything that takes time to import is imported here."""
    gc.set_threshold(200_000)  # imports and wide tables make many objects that stay, which need not be searched often
    with CtrlCEndsAtOnce():
        from .cli import build_app, prepare, run

        prepare()
        app = build_app()
    run(app)


if __name__ == "__main__":
    main()
