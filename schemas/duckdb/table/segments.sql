SELECT segment, doubling, first_row, "rows" FROM persons1_segments ORDER BY segment
