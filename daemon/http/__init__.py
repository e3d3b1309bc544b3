"""The web application: every route put together, metrics, OpenAPI description."""
