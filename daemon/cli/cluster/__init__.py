"""Commands for the cluster, policies, queues, users, webhooks, the bill and forecasts."""
