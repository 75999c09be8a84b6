"""`python -m stochattn`."""

from .cli import main

main()
