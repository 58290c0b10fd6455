"""Analysis of runs: samples, statistics, comparison, ceilings, warnings, boot plans."""
