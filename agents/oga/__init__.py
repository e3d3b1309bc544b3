"""OgaSched: fractional allocation learned online by gradient ascent (Zhao 2023), and its bench."""
