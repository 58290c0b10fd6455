"""Reports as HTML pages: each is one file that opens from disk and needs no network."""
