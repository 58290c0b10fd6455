"""Live reports of a run: events, the file that holds them, live figures."""
