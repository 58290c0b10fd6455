"""What several steps share of the data: the persons table, its doubling, the tables of pgio."""
