"""The step `buffers`: how many blocks are found in buffers of several sizes."""
