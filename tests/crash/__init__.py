"""The crash kit: it tries every state that a crash may leave on disk (docs/internals/crash-kit.md)."""
