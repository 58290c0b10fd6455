"""The time of processors by state since the machine's start, from /proc/stat.

A cpuset or taskset may allow processes only some of the processors.
"""

import re
from collections.abc import Iterable, Mapping

FILE = "proc/stat"
STATUS = "proc/self/status"
"""The file with the processors that this process may use."""
OFFLINE = "sys/devices/system/cpu/offline"
"""The file with the processors that the machine could have, and that do not work now."""
STATES = ("usr", "nice", "sys", "idle", "iowait", "irq", "soft", "steal", "guest", "gnice")
_LISTED = re.compile(r"^Cpus_allowed_list:\s*(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)$", re.MULTILINE)


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


def together(times: Mapping[str, dict[str, int]], allowed: frozenset[int] | None) -> dict[str, int]:
    """Return state -> clock ticks of the processors `allowed` together, of all if it is None.

    `times` is what `ticks` returns. The result is {} if it is empty.
    """
    if allowed is None:
        return times.get("cpu", {})
    parts = [times.get(f"cpu{number}", {}) for number in allowed]
    return {state: sum(part.get(state, 0) for part in parts) for state in STATES}


def listed(status: str) -> str:
    """Return the processors that a process may use, such as `0-3,8`; "" if they are not known.

    `status` is the text of /proc/PID/status.
    """
    found = _LISTED.search(status)
    return found[1] if found else ""


def numbers(text: str) -> frozenset[int]:
    """Return the numbers in a list of the kernel, such as `0-3,8`; none for an empty line."""
    ends = [part.partition("-") for part in text.strip().split(",") if part]
    return frozenset(
        one for first, _, last in ends for one in range(int(first), int(last or first) + 1)
    )


def restricted(
    statuses: Iterable[str], times: Mapping[str, dict[str, int]], offline: str
) -> frozenset[int] | None:
    """Return the processors that some processes may use, if these are not all that are online.

    `statuses` are the texts of /proc/PID/status of the processes, and `times` is what `ticks`
    returns. `offline` is the text of OFFLINE: the kernel may allow processors that do not work. The
    result is None if all processors may be used, or if this is not known for one of the processes.
    In a container, /proc/stat may have the container's processors alone, with other numbers: then
    they are all, too.
    """
    each = [numbers(listed(status)) for status in statuses]
    # /proc/stat cannot show which of them work: a container's has other numbers.
    allowed = frozenset[int]().union(*each) - numbers(offline)
    online = {int(name.removeprefix("cpu")) for name in times if name != "cpu"}
    return allowed if each and all(each) and allowed < online else None
