"""One constrained update: against the plain one, against the explicit procedure, as it grows."""
