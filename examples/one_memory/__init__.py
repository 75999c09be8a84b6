"""One memory that classifies, flags strangers, explains, forgets and is calibrated: python -m examples.one_memory."""
