"""What runs measured, as metrics that Prometheus scrapes: also while one runs."""
