"""Reports as pages: each is one file that opens from disk and asks no network."""
