"""`python -m rigctl`: the same entry as the installed command."""

from rigctl.cli.main import run

if __name__ == "__main__":
    run()
