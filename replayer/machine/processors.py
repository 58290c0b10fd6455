"""The time of all processors by state since the machine's start, from /proc/stat."""

FILE = "proc/stat"
STATES = ("usr", "nice", "sys", "idle", "iowait", "irq", "soft", "steal", "guest", "gnice")


def ticks(text: bytes) -> dict[str, dict[str, int]]:
    """Return processor -> state -> clock ticks since boot, from the text of /proc/stat.

    The key `cpu` has the sums of all processors, and `cpu0` and so on are those online. Guest time
    is not part of `usr` and `nice`, in which the kernel includes it.
    """
    by_name = {}
    for line in text.splitlines():
        if not line.startswith(b"cpu"):
            break
        name, *fields = line.decode("ascii").split()
        numbers = [int(field) for field in fields[: len(STATES)]]
        spent = dict(zip(STATES, numbers + [0] * (len(STATES) - len(numbers)), strict=True))
        spent["usr"] -= spent["guest"]
        spent["nice"] -= spent["gnice"]
        by_name[name] = spent
    return by_name
