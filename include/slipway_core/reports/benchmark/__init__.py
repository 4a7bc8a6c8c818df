"""The benchmark as one HTML page, for people: verdict, comparison with stable, limits, rounds, a sweep's curve."""
