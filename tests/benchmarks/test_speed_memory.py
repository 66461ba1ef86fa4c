"""The memory predictor against what one H200 gave away (torch 2.11, full trainer, TF32, both graphs captured)."""

from dataclasses import replace

import numpy as np
import pytest
from ours import FULL, spec_of
from shapes import Shape

from trainer.data.source import load_table
from trainer.memory import bars_of, pack_bytes

MEASURED = {
    64: (4_671_601_152, 8_668_512_256),
    256: (17_965_432_320, 31_353_405_440),
    512: (35_813_906_432, 61_713_874_944),
}


@pytest.mark.parametrize("members", MEASURED)
def test_within_fifteen_percent_of_an_h200(members):
    shape, (tensors, everything) = Shape(members=members), MEASURED[members]
    spec = spec_of(shape, "cuda", FULL)
    table = load_table(spec.data)
    wide = replace(table, features=np.zeros((len(table.features), shape.features), np.float32))
    predicted = pack_bytes(spec, bars_of(wide))
    assert predicted.tensors == pytest.approx(tensors, rel=0.15)
    assert predicted.total == pytest.approx(everything, rel=0.15)
