"""What puts load on a database, as fast as it answers or at a rate, and what one level came to."""
