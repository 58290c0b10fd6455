"""A plan of boots that runs by itself: after each boot the due step, then the next kernel, once."""
