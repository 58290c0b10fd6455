"""What is to be run: the workload file, the request, what it will take, what is resumed."""
