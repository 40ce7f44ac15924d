"""`kraft_native.base.crc`: every kernel that runs here computes what Kafka computes.

The chain of proof: Kafka's own values and a bitwise reference implementation verify the table kernel. The table
kernel verifies the others: over every length to 4096 at every offset (`self_test`), and here over long inputs, seeds
and pieces.
"""

import itertools
import random
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_native.base import crc
from kraft_native.base.errors import InvalidArgumentError
from tests.golden import golden, load_json, needs_golden
from tests.oracle.crc import crc32c as oracle

KERNELS = crc.kernels()
SEEDS = st.integers(0, 2**32 - 1)
NOISE = random.Random(32).randbytes(1 << 20)

every_kernel = pytest.mark.parametrize("kernel", KERNELS)


@needs_golden
@every_kernel
def test_kafkas_values(kernel):
    vectors = load_json(golden("vectors.json"))["crc32c"]
    assert len(vectors) > 8
    for vector in vectors:
        assert crc.checksum_with(kernel, bytes.fromhex(vector["data"])) == vector["crc"]


@every_kernel
def test_known_values(kernel):
    """The check value of the polynomial's definition, and the examples of RFC 3720, appendix B.4."""
    assert crc.checksum_with(kernel, b"") == 0
    assert crc.checksum_with(kernel, b"123456789") == 0xE3069283
    assert crc.checksum_with(kernel, bytes(32)) == 0x8A9136AA
    assert crc.checksum_with(kernel, b"\xff" * 32) == 0x62A8AB43
    assert crc.checksum_with(kernel, bytes(range(32))) == 0x46DD794E
    assert crc.checksum_with(kernel, bytes(range(31, -1, -1))) == 0x113FDB5C


@every_kernel
def test_every_length_at_every_offset(kernel):
    crc.self_test(kernel)


@settings(derandomize=True, deadline=None)
@given(st.binary(max_size=300), SEEDS)
def test_table_equals_the_bitwise_reference(data, seed):
    assert crc.checksum_with("table", data, seed) == oracle(data, seed)


@every_kernel
def test_every_short_length_equals_the_bitwise_reference(kernel):
    expected = 7
    for length in range(1025):
        assert crc.checksum_with(kernel, NOISE[:length], 7) == expected
        expected = oracle(NOISE[length:length + 1], expected)


@every_kernel
def test_single_bits_all_matter(kernel):
    """The remainders of 2 KiB messages with one bit set differ from each other: no kernel drops or moves a bit."""
    message = bytearray(2048)
    seen = {crc.checksum_with(kernel, message)}
    for bit in range(0, 8 * len(message), 7):
        message[bit // 8] = 1 << bit % 8
        seen.add(crc.checksum_with(kernel, message))
        message[bit // 8] = 0
    assert len(seen) == 1 + len(range(0, 8 * len(message), 7))


@settings(derandomize=True, deadline=None, max_examples=60)
@given(SEEDS, st.integers(0, 63), st.integers(0, (1 << 20) - 64))
def test_kernels_agree_on_long_input(seed, start, length):
    data = memoryview(NOISE)[start:start + length]
    assert len({crc.checksum_with(kernel, data, seed) for kernel in KERNELS}) == 1


@pytest.mark.parametrize("kernel", KERNELS[1:])
def test_every_length_past_the_block_limits(kernel):
    """The interleaved kernels cut long input into blocks of 12 to 35 KB."""
    data, expected = memoryview(NOISE), 0
    for length in range(1, 72_000):
        expected = crc.checksum_with("table", data[length - 1:length], expected)
        if length > 10_000:
            assert crc.checksum_with(kernel, data[:length]) == expected


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 100_000), max_size=8), SEEDS)
def test_pieces_make_the_whole(cuts, seed):
    cuts = [0, *sorted(cuts), 100_000]
    for kernel in KERNELS:
        whole = crc.checksum_with(kernel, NOISE[:100_000], seed)
        running = seed
        for start, end in itertools.pairwise(cuts):
            running = crc.checksum_with(kernel, NOISE[start:end], running)
        assert running == whole


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.integers(0, 200_000), st.integers(0, 200_000), SEEDS)
def test_combine(length_a, length_b, seed):
    a = memoryview(NOISE)[:length_a]
    b = memoryview(NOISE)[length_a:length_a + length_b]
    whole = crc.checksum(memoryview(NOISE)[:length_a + length_b], seed)
    assert crc.combine(crc.checksum(a, seed), crc.checksum(b), length_b) == whole


@pytest.mark.parametrize("exponent", [24, 28, 29, 31, 32, 40, 63])
def test_combine_over_long_distances(exponent):
    """Moving over 2^n bytes equals moving twice over 2^(n-1), down to lengths that were really summed."""
    crc_a = 0x12345678
    assert crc.combine(crc_a, 0, 1 << 20) == crc.checksum(bytes(1 << 20), crc_a) ^ crc.checksum(bytes(1 << 20))
    for bits in range(20, exponent):
        half = crc.combine(crc.combine(crc_a, 0, 1 << bits), 0, 1 << bits)
        assert crc.combine(crc_a, 0, 1 << bits + 1) == half
    assert crc.combine(crc_a, 5, 0) == crc_a ^ 5


def test_the_choice():
    assert KERNELS[0] == "table"
    assert KERNELS[-1] == crc.kernel_name()
    assert crc.checksum(NOISE) == crc.checksum_with(crc.kernel_name(), NOISE)


@pytest.mark.parametrize("size", [0, 5, 61, 5000, 100_000])
def test_any_contiguous_buffer(size):
    data = NOISE[:size]
    expected = crc.checksum_with("table", data)
    backing = bytearray(b"x" + data + b"x")
    for buffer in (data, bytearray(data), memoryview(data), memoryview(backing)[1:1 + size]):
        assert crc.checksum(buffer) == expected
    if size % 8 == 0:
        assert crc.checksum(memoryview(data).cast("q")) == expected
    buffer.release()
    backing.append(0)       # `checksum` released it: a bytearray that is still exported cannot grow


@pytest.mark.parametrize("size", [16, 100_000])
def test_a_buffer_that_is_not_contiguous_is_refused(size):
    with pytest.raises(BufferError):
        crc.checksum(memoryview(NOISE)[:size:2])
    for wrong in ("text", 5, None, [1, 2]):
        with pytest.raises(TypeError):
            crc.checksum(wrong)


def test_arguments_out_of_range():
    for seed in (-1, 2**32, 2**64, -(2**80)):
        with pytest.raises(InvalidArgumentError, match=f"seed is {seed}, allowed is 0 to 4294967295"):
            crc.checksum(b"x", seed)
        with pytest.raises(InvalidArgumentError, match="crc_b is"):
            crc.combine(0, seed, 1)
    with pytest.raises(InvalidArgumentError, match="bytes_b is -1"):
        crc.combine(0, 0, -1)
    with pytest.raises(TypeError):
        crc.checksum(b"x", "0")
    with pytest.raises(InvalidArgumentError, match="kernel is 'fast', allowed is one of table"):
        crc.checksum_with("fast", b"x")
    with pytest.raises(InvalidArgumentError):
        crc.self_test("")


def test_threads_at_once():
    """Long input runs without the GIL: threads must not disturb each other."""
    expected = [crc.checksum_with("table", memoryview(NOISE)[i:]) for i in range(4)]
    wrong = []

    def work(i):
        for _ in range(20):
            if crc.checksum(memoryview(NOISE)[i:]) != expected[i]:
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
