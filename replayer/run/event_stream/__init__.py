"""What a run reports while it lasts: events, the file that holds them, live figures."""
