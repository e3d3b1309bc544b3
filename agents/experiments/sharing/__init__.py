"""Orders of jobs compared: fairness and speed."""
