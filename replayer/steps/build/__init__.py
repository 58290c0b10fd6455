"""The step `build`: makes the table by doubling its rows until it has enough of them."""
