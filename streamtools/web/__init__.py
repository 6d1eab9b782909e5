"""Shows runs to pages, in the words of the protocols that their clients speak; see `streamtools.web.encoding`."""
