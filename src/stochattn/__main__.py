"""`python -m stochattn`, and the program `stochattn`."""

from ._backend.interruption import CtrlCEndsAtOnce


def main() -> None:
    """Run the command line; everything that takes time to import is imported here."""
    with CtrlCEndsAtOnce():
        from .cli import build_app, prepare, run

        prepare()
        app = build_app()
    run(app)


if __name__ == "__main__":
    main()
