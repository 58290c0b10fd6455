"""Made-up parts of results that several tests need; `from tests.made import ledger`."""

from replayer.model import Ledger, Verdict


def ledger(verdict=Verdict.PHYSICAL, **changed):
    """Return the ledger of 30 s of physical reads of 8 KiB blocks, with this verdict."""
    plain = {
        "asked": Verdict.PHYSICAL,
        "verdict": verdict,
        "window_seconds": 30.0,
        "riops": 1000.0,
        "buffer_hits": 10.0,
        "page_cache_hits": 0.0,
        "device_reads": 1000.0,
        "device_read_bytes": 1000.0 * 8192,
        "ratio": 1.0,
        "device": "vda",
    }
    return Ledger(**{**plain, **changed})
