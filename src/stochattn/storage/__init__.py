"""Banks and draws larger than memory: memory-mapped files, attention in blocks, draws written block by block."""
