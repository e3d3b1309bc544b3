"""Tables, one file per table family: records to rows and back."""
