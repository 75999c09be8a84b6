"""Speed of chains, exact draws, large banks and layers, compared with baselines and the limits of the machine."""
