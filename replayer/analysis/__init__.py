"""What runs mean: samples, statistics, comparison, ceilings, warnings, plans of boots."""
