"""`python -m kraft` is the `kraft` command."""

from kraft.cli import main

if __name__ == "__main__":
    main()
