"""What happens while the clock runs: the sampler, the workers, the ledger, the calibration."""
