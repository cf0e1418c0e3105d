"""Regions: what a proof costs, how it grows, what holding them adds to learning."""
