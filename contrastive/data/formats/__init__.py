"""Which layouts on disk can be read? One module per layout."""
