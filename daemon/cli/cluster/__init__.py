"""Commands for cluster, policies, queues, users, webhooks, bill and what-if."""
