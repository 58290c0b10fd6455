"""MySQL's protocol, by PyMySQL."""
