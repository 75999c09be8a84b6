"""Speed: chains, exact draws, large banks and growth, each beside its rivals and the limits of the machine."""
