"""Readers of /proc and /sys: the host, its disks, its page cache, its processes."""
