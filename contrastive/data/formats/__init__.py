"""The layouts on disk that can be read, one module per layout."""
