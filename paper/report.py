"""One page for all results: each table with its verdicts, each figure, and where we differ and why."""
