"""Load on a database: closed loop or open loop (at a rate), and the results of each level."""
