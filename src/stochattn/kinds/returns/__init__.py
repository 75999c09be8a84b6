"""Returns and price histories: files to windows of log-returns, and scenarios to files."""
