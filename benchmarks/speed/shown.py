"""How rows of figures are shown: a line each, with what share of the device's ceilings a packed update reaches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rivals import Job

Row = dict[str, Any]
PACKED = "ours", "ours-walking", "torch-packed", "jax-packed"  # many members, and no products but C51's and the walk's
PRODUCTS = {"tf32": "tf32_operations", "bf16": "bf16_operations"}  # which ceiling counts; float32 has none


def shares(job: Job, rate: float, ceilings: Row) -> Row:
    """Of a packed update: operations a second over the measured product rate, bytes a second over the copy's.

    Both are lower bounds: operations of the matrix products alone (`Shape.products`), bytes that no way of writing the
    update avoids (`Shape.traffic`). The walk's are left out.
    """
    if job.name not in PACKED or not ceilings:
        return {}
    found = {"operations_per_second": rate * job.shape.products, "bytes_per_second": rate * job.shape.traffic}
    found["of_copy"] = found["bytes_per_second"] / ceilings["copy_bytes"]["median"]
    if job.precision in PRODUCTS:
        found["of_products"] = found["operations_per_second"] / ceilings[PRODUCTS[job.precision]]["median"]
    return found


def table(rows: list[Row], ratio_to: str | None) -> Iterator[str]:
    """One line a row; the ratio is to the row of that name with as many members, or else with one."""
    medians = {(r["name"], r["members"]): r["updates_per_second"]["median"] for r in rows if "error" not in r}
    yield (
        f"{'name':32}{'P':>5}  {'precision':10}{'updates/s':>12}  {'[min, max]':26}{'ratio':>8}"
        f"{'FLOP/s':>9}{'bytes/s':>9}  variant"
    )
    for row in rows:
        start = f"{row['rival']:32}{row['members']:>5}  {row['precision']:10}"
        if "error" in row:
            yield start + row["error"].replace("\n", " ")[:160]
            continue
        rate = row["updates_per_second"]
        base = medians.get((ratio_to, row["members"]), medians.get((ratio_to, 1)))
        ratio = f"{rate['median'] / base:8.2f}" if base else " " * 8
        spread = f"[{rate['min']:,.0f}, {rate['max']:,.0f}]"
        reached = f"{percent(row.get('of_products'))}{percent(row.get('of_copy'))}"
        yield f"{start}{rate['median']:>12,.0f}  {spread:26}{ratio}{reached}  {row['variant']}"


def percent(share: float | None) -> str:
    return " " * 9 if share is None else f"{100.0 * share:>7.1f} %"
