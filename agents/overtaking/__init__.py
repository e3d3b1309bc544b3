"""Letting jobs behind the head of the queue go before it, whoever places them."""
