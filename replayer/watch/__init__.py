"""The parts that work during a measurement: sampler, workers, ledger and calibration."""
