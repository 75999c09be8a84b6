"""`python -m paper`."""

from .cli import app

app(prog_name="python -m paper")
