"""Common parts of decoders: the error for a value that cannot be read, and conversion of rows to columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


class UndecodableError(ValueError):
    """A value does not have the form that the decoder expects."""


def without_nulls(values: pa.Array, decode: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Apply `decode` to the values that are not null, and keep null for the others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not values.null_count:
        return decode(values)
    present = decode(values.drop_null())
    places = pc.cumulative_sum(pc.cast(values.is_valid(), pa.int64()))
    return present.take(pc.if_else(values.is_valid(), pc.subtract(places, 1), pa.scalar(None, pa.int64())))


def rows_to_arrow(rows: list[Any], kind: pa.DataType) -> pa.Array:
    """Return Python values as a column. `UndecodableError` when one does not fit the type."""
    import pyarrow as pa

    try:
        return pa.array(rows, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, ValueError,
            TypeError) as error:
        raise UndecodableError(str(error)) from error
