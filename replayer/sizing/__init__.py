"""From what a source needs to whether a machine can give it: profile, requirement, verdict."""
