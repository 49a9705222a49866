"""Beside the product: known answers, benchmarks, the emulator beside real runs, the tables of the result pages."""
