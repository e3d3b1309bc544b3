"""The page at `/`: what browsers load (`files/`), and what the daemon tells it beside the rest of the API."""
