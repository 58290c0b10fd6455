"""Database engines: schemas/NAME -> checked verbs, connections to servers, passwords."""
