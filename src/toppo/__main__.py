"""``python -m toppo`` is the command line."""

from toppo.cli import main

if __name__ == "__main__":
    main()
