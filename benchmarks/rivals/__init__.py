"""Methods of other authors, one per file, fitted on the stored examples alone."""
