"""CRC-32C (Castagnoli), the checksum of record batches. Any thread may call these functions."""

from typing_extensions import Buffer

def checksum(data: Buffer, seed: int = 0) -> int:
    """The CRC-32C of a contiguous buffer of bytes, continuing from `seed` (0 to 2^32 - 1)."""

def combine(crc_a: int, crc_b: int, bytes_b: int) -> int:
    """The CRC-32C of A followed by B, from `checksum(A)`, `checksum(B)` and the length of B in bytes."""

def kernel_name() -> str:
    """The kernel that `checksum` and the engine use."""

def kernels() -> tuple[str, ...]:
    """The kernels that run on this machine, slowest first; the last one is `kernel_name()`."""

def checksum_with(kernel: str, data: Buffer, seed: int = 0) -> int:
    """Compute `checksum` by the kernel of that name, to test and to compare them."""

def self_test(kernel: str) -> None:
    """Compare the kernel with the table kernel: every length from 0 to 4096 at every offset within a cache line."""
