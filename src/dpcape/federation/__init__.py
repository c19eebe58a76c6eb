"""Sites behind a transport, under one protocol."""
