"""Images as a kind of data."""
