"""What held knowledge costs and gives elsewhere: one-sided, in full, and against other ways."""
