"""The crash kit: what a crash may leave on disk, tried state by state (docs/internals/crash-kit.md)."""
