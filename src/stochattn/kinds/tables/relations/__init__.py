"""Relations between columns of a table: how they are discovered, and how new rows keep them."""
