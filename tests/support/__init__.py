"""What tests share: small networks, runs and files, and how to look at them."""
