"""Classification of the kernel's work: from a call chain to a part of an account of time.

A chain is read from its leaf to its root, and the first function with a known purpose decides.  So
the function nearest to the executed code counts.  An interrupt's work belongs to the interrupt, not
to the system call that it interrupted.  The end of a request belongs to the block layer, wherever
it occurs.

1. Some functions are used by all parts of the kernel, so they show no purpose: locks that were
   free, allocation, memory accounting, RCU, permission checks, and observers such as perf and BPF.
   They are skipped, and their callers decide.
2. For one function, the order of the table decides, from special to general.  Spinning for a lock
   and mitigations come first: they count as such, independent of their caller.  Then comes copying,
   independent of whose data it is.  Then tracepoints, auditors and filters of system calls, which
   are entry.  Faults come before the page cache, because a fault that maps pages of the cache is a
   fault.  The scheduler comes before the functions that wait or wake.  Drivers and block layer come
   before the page cache, and that before the file system: a read goes through all of them, and
   belongs to the deepest one that it reaches.
3. Gates are the functions through which every system call enters.  If a gate is the leaf, the time
   is that of entry and exit.  If there are only unknown functions below a gate, it is other kernel
   work.

The names are those of kernels 4.18 to 6.18, on x86-64 and arm64.  A suffix that a compiler adds
(`.isra.0`, `.constprop.0`, `.part.0`, `.cold`) is ignored.
"""

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from replayer.model import KERNEL_FRAME, Spent, StackProfile


class _AnyOf:
    """A set of regular expressions of which one has to match; compiled at the first use."""

    def __init__(self, *patterns: str) -> None:
        self._patterns = patterns

    @functools.cached_property
    def match(self) -> Callable[[str], re.Match[str] | None]:
        """Return the `match` method of one regular expression that joins all patterns."""
        return re.compile("|".join(f"(?:{pattern})" for pattern in self._patterns)).match


_OBSERVING = re.compile(r"\w*(_sys_|syscall_)(enter|exit)")
"""Tracepoints of system calls, and the programs that are attached to them."""
_PASSED_OVER = _AnyOf(
    r"_raw_(spin|read|write)_|_*(raw_)?spin_|_*rcu_read",
    r"rcu_(qs|note|is|lockdep)|_*rcu_(irq|nmi|eqs)",
    r"preempt_|_*local_(bh|irq)|_*mutex_(un|try)?lock$",
    r"_*(down|up)_(read|write)\w*$|rwsem_(wake|read)",
    r"lockref_|refcount_|(kmem_)?cache_(alloc|free)|kmem_",
    r"_*k[vz]*(m|z|c)?alloc|_*k[vz]*free|_+slab|slab_",
    r"\w*alloc_pages|alloc_(slab|frozen)|get_page_from|_*rmqueue",
    r"(prep|post)_(new|alloc|compound)",
    r"clear_page|clear_highpage|kernel_init_pages",
    r"_*free_(unref|pages?|one|frozen|pcp|slab)|release_pages|_*put_page",
    r"_*folio_(put|alloc)",
    # Shared memory is a file, too: a server's buffers are faulted in, programs read it.
    r"shmem_(get|alloc|add|charge|inode_acct|recalc|swapin)",
    r"_*mem_cgroup|\w*memcg|obj_cgroup|cgroup_",
    r"_*mod_(lruvec|node|zone|memcg|objcg)|_*inc_|_*dec_",
    r"_*percpu_(counter|ref)|_*mem(set|cpy|move|cmp|chr)",
    r"_*str(n?cpy|len|n?cmp|scpy)|_*xas?_|radix_tree|rb_|_*rb_|_*list_",
    r"_*rhash|_*hash|llist|(_*bitmap|find_(next|first)_|_find_)|cpumask",
    r"security_|apparmor_|aa_|selinux_|avc_|smack_|cap_|ns_capable|capable",
    r"_*bpf_|bpf_|_*perf_|_*ftrace|_*trace_|trace|kprobe|kretprobe",
    r"optimized_callback|_*rethook|uprobe",
    r"ktime_get|kvm_(clock|sched_clock)|pvclock|paravirt|pv_|read_tsc",
    r"native_(sched_clock|read|write)_?|sched_clock|local_clock|_*ktime",
    r"_*fentry|io(write|read)\d|vp_|virtqueue_|vring_|_*dma_|_*iommu",
    r"intel_iommu|swiotlb|_*might|_*warn|irq_work|call_rcu|_*gup",
    r"_*(get|pin)_user_pages|internal_get_user|try_grab|unpin_user",
    r"task_work_run|asan|kasan|kcsan|kmsan|stack_trace|unwind_|static_",
    r"_*(get|put)_user_(?!pages)|jump_label|__cfi|_*const_udelay|delay_|_*errseq|wake_(const_)?ops",
)
"""Functions that are used everywhere in the kernel: their caller shows the purpose."""
_GATE = re.compile(
    r"entry_(SYSCALL|SYSENTER|INT80)_|do_(fast_|int80_)?syscall_|do_syscall$|x64_sys_call$"
    r"|(do_)?el[01]\w*_(svc|sync|irq|fiq|error|interrupt)|invoke_syscall|__invoke_syscall"
    r"|ret_from_fork|ret_to_user|kthread$|worker_thread$|process_one_work"
)
"""Functions at the root of every chain: the entry of system calls, interrupts or threads."""

_CALLS = r"(__(x64|ia32|arm64|se|do)_)?(compat_)?(sys|ksys)_"


_TABLE: tuple[tuple[Spent, _AnyOf], ...] = (
    (
        Spent.LOCKING,
        _AnyOf(
            r"(native_|__pv_|pv_)?queued_(spin|read|write)_lock_slowpath",
            r"osq_lock|\w*_spin_on_owner|rwsem_optimistic_spin|__mutex_lock",
            r"rwsem_down_\w+_slowpath|rwsem_mark_wake|mutex_optimistic_spin|rt_mutex_slow",
            r"virt_spin_lock|kvm_wait|__pv_(wait|kick)|percpu_down_(read|write)|__percpu_down",
        ),
    ),
    (
        # Mitigations: thunks and barriers that any function may end in.
        Spent.ENTRY,
        _AnyOf(
            r"srso_|retbleed_|zen_untrain|entry_(untrain_ret|ibpb)|__x86_(return|indirect)_",
            r"__x86_indirect_thunk|its_(return_|ret)|clear_bhb|write_ibpb",
            r"__clear_branch_history",
            r"mds_|x86_verw|verw|spectre_|arm_smccc_|__this_cpu_vector|bpf_spec|__ret$",
        ),
    ),
    (
        Spent.COPY,
        _AnyOf(
            r"_*(raw_)?copy_(to|from|in)_user|__arch_copy_|copy_user_|copyout|copyin$|copy_mc_",
            r"_*copy_(to|from)_iter|_copy_(mc_)?to_iter|copy_page_(to|from)_iter|copy_folio_",
            r"rep_movs_alternative|rep_stos_alternative|__?clear_user",
            r"fault_in_(iov|read|write)",
            r"copy_to_user_iter|memcpy_(to|from)_iter|iov_iter_zero",
        ),
    ),
    (
        # Work that every system call and every interrupt needs.
        Spent.ENTRY,
        _AnyOf(
            r"_*audit_|_*seccomp_|__secure_computing",
            r"syscall_(trace|enter|exit|slow|return|regfunc)|(do_)?syscall_trace_",
            r"(perf|ftrace|prof)_syscall_(enter|exit)|\w*_sys_(enter|exit)$",
            r"(perf_)?trace_(event_raw_event_)?sys_(enter|exit)",
            r"exit_to_user_mode|__exit_to_user|prepare_exit_to_user|do_notify_resume|_*rseq_",
            r"switch_fpu_return|fpregs_restore|restore_fpregs|__switch_to_fpu",
            r"context_tracking|ct_(user|kernel|irq|nmi)_|_*user_(enter|exit)_irqoff|vtime_",
            r"enter_from_user_mode|entry_|error_(entry|return)|sync_regs|paranoid_(entry|exit)",
            r"swapgs_|native_(irq_return_)?iret|restore_regs_and|common_interrupt_return",
        ),
    ),
    (
        Spent.FAULTS,
        _AnyOf(
            r"(asm_)?exc_page_fault",
            r"_*do_(user_addr_|kern_addr_|page_|translation_|mem_)?(fault|abort)",
            r"page_fault$|async_page_fault|el[01]_[di]a$|handle_(mm|pte)_fault",
            r"_*handle_mm_fault",
            r"do_(anonymous|wp|swap)_page|do_(cow|shared|read|numa)_\w*(fault|page)",
            r"do_huge_pmd|wp_page_|finish_fault|shmem_fault",
            r"filemap_map_|next_uptodate_|set_pte_range|alloc_set_pte",
            r"do_set_p[mt][de]|lock_vma_",
            r"alloc_anon_|_*pte_alloc|_*p[mgu4]+d_alloc|pte_(offset|unmap)",
            r"clear_huge|folio_zero_user",
            r"clear_(gigantic|contig|subpage)|khugepaged|collapse_|hugetlb_",
            r"split_huge|_*split_folio",
            r"(zap|unmap|free|copy|change|move)_(page|pte|pmd|pud|p4d|pgd|vmas?|pgtables?)_?\w*",
            r"unmap_region|unmap_single|vm_munmap|_*do_(munmap|vmi|mmap|brk|madvise)",
            r"do_mas_|mmap_region",
            r"exit_mm|mmput|_*mmdrop|dup_mm|_*mas_|_*mtree_|vma_|find_vma|vm_area_|_*vm_mmap",
            r"madvise_|mprotect_|mremap|tlb_|flush_tlb|_*flush_tlb|native_flush_tlb",
            r"ptep_|pmdp_",
            r"task_numa_work|change_prot_numa|migrate_(misplaced|pages|folio)|numa_migrate",
            r"userfaultfd|ksm_|anon_vma_|_*page_(add|remove)_\w*rmap",
            r"folio_(add|remove)_\w*rmap",
            _CALLS + r"(mmap|munmap|madvise|brk|mprotect|mremap|mlock)",
        ),
    ),
    (
        Spent.SCHEDULER,
        _AnyOf(
            r"_*(io_|preempt_)?schedule(_|$)|__cond_resched|finish_task_switch|__switch_to",
            r"context_switch|prepare_task_switch|switch_mm|(try_to|default)_wake",
            r"_*wake_up|wake_q",
            r"ttwu_|sched_|scheduler_|_*sched_",
            r"(en|de)queue_(task|entity|entities|dl|rt|hrtimer)",
            r"(pick|put|set)_(next|prev)_|pick_(eevdf|task)",
            r"update_(curr|load|rq|cfs|min|blocked)",
            r"check_preempt|wakeup_preempt|resched_|reweight_|place_entity",
            r"avg_vruntime|vruntime_",
            r"select_(task|idle|fallback)|load_balance|newidle|rebalance",
            r"find_(busiest|idlest|energy)",
            r"(task|entity)_tick|task_(fork|dead)_fair|cfs_|yield_task",
            r"do_sched_yield|rq_|raw_spin_rq",
            r"_*do_futex|_*futex_|plist_|_*hrtimer_|hrtimers?_|tick_|_*run_timer",
            r"run_local_timers",
            r"update_(process_times|wall_time)|timekeeping_|calc_(global_)?load",
            r"clockevents_|lapic_next",
            r"call_timer_fn|_*mod_timer|(add|del)_timer|timer_|expire_timers|local_apic_timer",
            r"do_nanosleep|_*prepare_to_wait|_*finish_wait|add_wait_queue",
            r"autoremove_wake|wait_for_",
            r"(smp|flush_smp|generic_smp)_call_function|sysvec_(reschedule|call_function)",
            r"psi_|account_(user|system|idle|process)|cpuacct_|irqtime_|kthread_",
            r"cpuidle|do_idle",
            r"_*down_(timeout|interruptible)|(rt_)?mutex_unlock_slow|_*semtimedop",
            r"do_sem|task_work_add",
            _CALLS + r"(futex|nanosleep|clock_nanosleep|sched_yield|sem)",
        ),
    ),
    (
        Spent.NETWORK,
        _AnyOf(
            r"_*sock_|_*sock(fd|et)_|_*sys_(recv|send|accept|connect)|_*tcp_|_*udp",
            r"_*ip6?_|_*ipv[46]_",
            r"inet6?_|_*unix_|_*skb_|kfree_skb|_*alloc_skb|consume_skb|net_(rx|tx)",
            r"_*dev_(queue|hard)",
            r"_*netif_|_*napi_|process_backlog|loopback_|nf_|nft_|ipt_|xt_|qdisc_",
            r"_*qdisc|sch_|fq_",
            r"dst_|fib_|neigh_|_*sk_|release_sock|_*lock_sock|_*release_sock|tun_",
            r"tap_|virtnet_|veth_",
            r"br_|ena_|mlx[45]|ixgbe|i40e|ice_|igb|bnxt|netvsc|xennet|e1000",
            r"start_xmit|gro_|_*ep_",
            r"do_epoll|ep_poll|(do|core)_(sys_)?(poll|select)|_*pollwait",
            r"poll_(freewait|schedule)",
            r"_*vsock|virtio_transport|rtnl|netlink|tls_|_*sys_(epoll|poll|select)",
            r"eth_|vlan_|bond_",
            _CALLS + r"(send|recv|accept|connect|socket|epoll|poll|ppoll|select|pselect|shutdown)",
        ),
    ),
    (
        # Direct I/O, although these names begin like those of the block layer.
        Spent.FILE_SYSTEM,
        _AnyOf(r"bio_iov_iter|bio_set_pages|blkdev_|_*bio_release_pages|blk_(start|finish)_plug$"),
    ),
    (
        Spent.BLOCK,
        _AnyOf(
            r"_*blk|_*bio_|_*submit_bio|bio(set)?$|submit_bh|end_buffer|nvme_",
            r"nvmet?_|virtblk|virtio_queue_rq",
            r"virtio_commit_rqs|_*scsi|sd_|ata_|ahci_|mpt3|mpi3|megasas|_base_",
            r"pvscsi|storvsc|blkif",
            r"xlblk|_*dm_|dm$|_*clone_endio|_*map_bio|linear_map|stripe_map|crypt_",
            r"kcryptd|dmcrypt",
            r"md_|raid\d|_*loop_|lo_|nbd_|rbd_|drbd_|zram_|null_|elv_|dd_|bfq_",
            r"kyber_|_*sbitmap",
            r"ioc_|iocg_|ioprio|throtl|tg_|_*rq_qos|wbt_|_*get_request|disk_|part_",
            r"bdev_|update_io_ticks",
            r"_*bvec_|bvec|mempool_|pmem_|nd_|dax_direct|scsi_|sg_|qla|lpfc|iscsi|dasd",
        ),
    ),
    (
        Spent.PAGE_CACHE,
        _AnyOf(
            r"_*filemap_|_*find_(get|lock)_(page|entr|folio)|pagecache_",
            r"_*page_cache_|grab_cache",
            r"generic_file_buffered_read|ondemand_readahead|force_page_cache",
            r"_*do_page_cache|read_pages",
            r"readahead_|add_to_page_cache|delete_from_page_cache|_*remove_mapping|mapping_",
            r"(folio_|_*)mark_(page_|folio_)?(accessed|dirty)",
            r"folio_(mark|end|wait|unlock|account|clear)_",
            r"_*folio_(lock|mark|end)|end_page|unlock_page|_*lock_page|wait_on_page",
            r"workingset_",
            r"shrink_|kswapd|balance_pgdat|isolate_|(move|evict|scan)_(folios|pages)",
            r"try_to_free_(mem|pages)",
            r"lru_|_*pagevec_|folio_batch|folio_activate|activate_page|deactivate",
            r"rotate_reclaim|kcompactd|compact",
            r"_*balance_dirty|_*wb_|writeback_|do_writepages|write_cache_pages|bdi_",
            r"truncate_|invalidate_",
            r"ksys_readahead|generic_fadvise|do_fadvise",
            _CALLS + r"(fadvise|readahead|mincore|cachestat)",
        ),
    ),
    (
        Spent.FILE_SYSTEM,
        _AnyOf(
            r"_*ext[234]_|_*jbd2_|_*xfs_|xlog_|_*btrfs_|f2fs_|_*nfs|nfs4_|rpc_|xprt_",
            r"ovl_|_*fuse_|virtio_fs",
            r"zfs_|zpl_|dmu_|arc_|dbuf_|spl_|gfs2_|ocfs2_|ceph_|cifs_|smb2_|tmpfs",
            r"shmem_|simple_|ramfs_",
            r"iomap_|mpage_|_*dio_|do_direct_IO|_*blockdev_direct|do_mpage",
            r"block_(read|write|dirty|invalid)",
            r"_*block_|_*(find|get)_(get_)?(block|bh)|_*bread|_*getblk",
            r"create_(empty|page)_buffers|_*brelse|buffer_",
            r"vfs_|_*vfs_|ksys_|new_sync_|do_(iter|loop)_",
            r"do_(readv|writev|preadv|pwritev)|rw_verify|kiocb_",
            r"import_iovec|iov_iter|_*fsnotify|inotify|fanotify",
            r"_*(touch|update)_(a|c)?time|atime_needs",
            r"file_(update|remove|accessed|start|end|modified|ra)|inode_|_*iget|iput",
            r"ilookup|current_time",
            r"_*f(d)?get(_light|_pos|_files)?(_rcu)?$|_*fdget|_*fput|fd_install",
            r"alloc_(fd|empty_file)|close_fd|filp_",
            r"do_filp_open|path_|link_path|walk_component|lookup_|_*d_|dput|dentry",
            r"mnt_|getname|do_sys_open|do_open",
            r"generic_(write|perform|file|update)|do_fsync|sync_file|vfs_fsync",
            r"do_sys_ftruncate|aio_|io_submit",
            r"_*io_(uring|read|write|issue|queue|req|submit_sqe|cqring|prep|init|alloc)",
            r"lookup_ioctx|pipe_|anon_pipe",
            r"seq_|proc_|kernfs_|sysfs_|step_into|try_to_unlazy|complete_walk",
            r"terminate_walk|legitimize",
            _CALLS + r"(p?readv?|p?writev?|pread64|pwrite64|preadv2?|pwritev2?|open|close|fsync)",
            _CALLS + r"(fdatasync|sync|lseek|(new)?[fl]?stat|fallocate|ftruncate|unlink|rename)",
            _CALLS + r"(io_|getdents|fcntl|access|dup)",
        ),
    ),
    (
        # Interrupts themselves; the work that is done in them matches an entry above.
        Spent.ENTRY,
        _AnyOf(
            r"asm_|sysvec_|_*common_interrupt|do_IRQ|irqentry_|irq_(enter|exit)",
            r"_*irq_exit|_*do_softirq",
            r"handle_(softirqs|irq|edge|fasteoi|percpu)|do_softirq|_*softirqentry",
            r"ret_from_intr|apic_|(native_)?apic",
            r"generic_handle|gic_|call_on_irq|_*handle_(domain|irq_event)",
            r"interrupt_entry|kvm_guest_apic",
            r"smp_(apic|reschedule|call)|apic_timer_interrupt|exc_|nmi_",
        ),
    ),
    (Spent.KERNEL, _AnyOf(r"rcu_(core|do_batch|gp_|cpu_kthread)|delayed_work|run_ksoftirqd")),
)


def classify(frames: Sequence[str]) -> Spent:
    """Return the part of an account, such as Spent.COPY, to which a kernel call chain belongs.

    `frames` go from the root to the leaf.  Frames of programs, which do not end in KERNEL_FRAME,
    are ignored.
    """
    chain = [frame for frame in reversed(frames) if frame.endswith(KERNEL_FRAME)]
    if chain and _is_gate(chain[0]):
        return Spent.ENTRY
    for frame in chain:
        if _is_gate(frame):
            break
        spent = _says(frame)
        if spent is not None:
            return spent
    return Spent.KERNEL


def kernel_samples(profile: StackProfile) -> dict[str, dict[Spent, int]]:
    """Return the numbers of a profile's samples in kernel mode, by process and by use of time.

    It is class of process, such as `server` -> use of time, such as Spent.COPY -> samples.  Raises
    ValueError if the profile's stacks cannot be decoded.
    """
    samples: dict[str, Counter[Spent]] = {}
    for whose, frames, count in _kernel_stacks(profile.stacks().items()):
        samples.setdefault(whose, Counter())[classify(frames)] += count
    return {whose: dict(spent) for whose, spent in samples.items()}


def _kernel_stacks(
    stacks: Iterable[tuple[str, int]],
) -> Iterable[tuple[str, tuple[str, ...], int]]:
    for stack, count in stacks:
        whose, mode, _, *frames = stack.split(";")
        if mode == "kernel":
            yield whose, tuple(frames), count


def _name(frame: str) -> str:
    return frame.removesuffix(KERNEL_FRAME).partition(".")[0]


@functools.lru_cache(maxsize=1 << 14)
def _is_gate(frame: str) -> bool:
    return _GATE.match(_name(frame)) is not None


@functools.lru_cache(maxsize=1 << 14)
def _says(frame: str) -> Spent | None:
    """Return the part of an account, such as Spent.COPY, that the name of a kernel function shows.

    Returns None if the name is unknown, or if all parts of the kernel use the function.
    """
    name = _name(frame)
    if _PASSED_OVER.match(name) and not _OBSERVING.match(name):
        return None
    return next((spent for spent, pattern in _TABLE if pattern.match(name)), None)
