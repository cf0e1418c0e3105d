"""Side-by-side timings of Handrail against what it replaces. Run with `python -m benchmarks`."""
