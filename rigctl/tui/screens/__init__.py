"""What fills the whole terminal, one file a screen."""
