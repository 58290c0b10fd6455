"""The step `flush`: everything on disk, with proof."""
