"""Code for tables that several steps share: the persons table, its doubling, the tables of pgio."""
