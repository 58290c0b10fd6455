"""What a machine allows, tried before a run."""
