"""The collector `syscalls`: how often which system call was made, by bpftrace."""
