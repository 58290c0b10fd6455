"""Ratios against a peer in the same run: `make bench` prints them as a table and stores them."""
