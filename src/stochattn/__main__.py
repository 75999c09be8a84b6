"""`python -m stochattn`, and the program `stochattn`."""

import gc

from ._backend.console import end_at_ctrl_c


def main() -> None:
    """Run the command line; everything that takes time to import is imported here."""
    gc.set_threshold(200_000)  # imports and wide tables make many objects that stay, which need not be searched often
    with end_at_ctrl_c():
        from .cli import build_app, prepare, run

        prepare()
        app = build_app()
    run(app)


if __name__ == "__main__":
    main()
