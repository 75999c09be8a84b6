"""The generators of sequences: a mixture over sites in latent coordinates, gaps and conserved sites."""
