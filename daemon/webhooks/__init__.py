"""What happens, told to who is named in the config: by signed requests, repeated until they are taken."""
