"""What everything rests on: arrays of numpy and torch, checks, random streams, progress, device memory, files."""
