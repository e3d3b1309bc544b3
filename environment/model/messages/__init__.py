"""Values that enter and leave the model: events, commands, records, snapshots."""
