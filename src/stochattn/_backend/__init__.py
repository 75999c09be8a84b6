"""Arrays of numpy and torch, argument checks, random streams, progress, device memory, files, HTML, saved state."""
