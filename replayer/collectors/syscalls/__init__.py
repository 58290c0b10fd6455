"""The collector `syscalls`: how often each system call was made, by bpftrace."""
