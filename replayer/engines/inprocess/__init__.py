"""A server for engines that are libraries: PostgreSQL's protocol, a private socket, one process."""
