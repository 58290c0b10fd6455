"""The step `buffers`: the share of blocks found in the server's buffers, for several sizes."""
