"""Writes an audit as one HTML file: `pictures` computes its SVG, `html` fills the template."""
