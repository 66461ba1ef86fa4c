"""Launches sweeps of packed trials with Ray Tune. Importing this package imports neither ray nor torch."""
