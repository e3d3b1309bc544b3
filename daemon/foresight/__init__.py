"""What would come of the queue as it is now: asked over the API, played in processes of their own."""
