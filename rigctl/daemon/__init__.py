"""The shell around the core: the loop, orders carried out, pollers, the socket's server."""
