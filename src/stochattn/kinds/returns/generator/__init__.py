"""The generator of returns: windows of days, and a path of the market."""
