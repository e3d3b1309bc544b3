"""From a job specification to a queued job: admission, and drivers that request executors themselves."""
