"""One module a verb; each has `add(subparsers)` and is imported only when it is typed."""
