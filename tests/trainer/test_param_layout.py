"""The flat parameter buffer: slices partition it, tensors are aligned, padding stays exactly zero."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_trial import started, tiny_spec

from trainer.config import EnsembleConfig, IQNConfig, NetworkConfig, TrainerConfig
from trainer.params import ALIGN, SLICES, make_layout
from trainer.step import iterate

sizes, widths = st.integers(1, 70), st.integers(2, 70)
networks = st.builds(NetworkConfig, trunk=st.tuples(widths, widths), head=widths, atoms=st.integers(2, 60))
ensembles = st.builds(EnsembleConfig, heads=st.integers(2, 9), hidden=widths)
trainers = st.builds(TrainerConfig, network=networks, ensemble=ensembles, iqn=st.builds(IQNConfig, cosines=widths))


@settings(max_examples=30, deadline=None)
@given(observation=sizes, trainer=trainers)
def test_slices_partition_the_buffer(observation, trainer):
    layout = make_layout(observation, trainer)
    ends = 0
    for name in SLICES:
        start, stop = layout.slices[name]
        assert start == ends
        assert stop > start
        ends = stop
    assert ends == layout.total
    assert layout.slice_starts().tolist() == [layout.slices[name][0] for name in SLICES] + [layout.total]


@settings(max_examples=30, deadline=None)
@given(observation=sizes, trainer=trainers)
def test_each_tensor_lies_in_its_slice_on_a_boundary_and_touches_no_other(observation, trainer):
    layout = make_layout(observation, trainer)
    names = [tensor.name for tensor in layout.tensors]
    assert len(set(names)) == len(names)
    for tensor in layout.tensors:
        start, stop = layout.slices[tensor.slice]
        assert start <= tensor.start < tensor.stop <= stop
        assert tensor.start * 4 % 128 == 0
        assert tensor.row_stride % ALIGN == 0
    marks = torch.zeros(1, layout.total)
    for view in layout.views(marks).values():
        view.add_(1)
    assert set(marks.unique().tolist()) <= {0.0, 1.0}
    assert torch.equal(marks[0] == 0, layout.padding())


def test_order_of_the_tensors_and_their_shapes():
    layout = make_layout(32, TrainerConfig(network=NetworkConfig(trunk=(64, 48), head=16, atoms=51)))
    names = "w_s1 b_s1 w_s2 b_s2 w_v1 b_v1 w_v2 b_v2 w_d1 b_d1 w_d2 b_d2 w_m1 b_m1 w_m2 b_m2 "
    names += "w_q0 b_q0 w_q1 b_q1 w_q2 b_q2 w_e1 b_e1 w_e2 b_e2 w_p b_p w_r b_r "
    names += " ".join(f"sigma_{kind}_{head}1" for head in "vdm" for kind in "wb")
    assert [tensor.name for tensor in layout.tensors] == names.split()
    shapes = {tensor.name: (tensor.rows, tensor.columns) for tensor in layout.tensors}
    assert shapes["w_s1"] == (32, 64)
    assert shapes["w_s2"] == (64, 48)
    assert shapes["w_v2"] == (16, 51)
    assert shapes["w_d2"] == shapes["w_m2"] == (16, 153)
    assert shapes["w_p"] == (48 + 7, 48)
    assert shapes["w_q0"] == (16, 48)
    assert shapes["w_q2"] == (16, 6)
    assert (shapes["w_e1"], shapes["w_e2"], shapes["b_e2"]) == ((48, 80), (80, 6), (5, 6))
    assert shapes["w_r"] == (48, 32)
    assert shapes["sigma_w_d1"] == (48, 16)
    assert {tensor.name: tensor.row_stride for tensor in layout.tensors}["w_d2"] == 160


def test_views_share_the_memory_of_a_row_of_a_larger_buffer():
    layout = make_layout(5, TrainerConfig(network=NetworkConfig(trunk=(8, 8), head=8, atoms=11)))
    rows = torch.zeros(3, 2, layout.total)
    layout.views(rows[1])["w_s2"][1, 2, 3] = 7.0
    spec = next(tensor for tensor in layout.tensors if tensor.name == "w_s2")
    assert rows[1, 1, spec.start + 2 * spec.row_stride + 3] == 7.0
    assert rows.count_nonzero() == 1


def test_initial_weights_follow_the_inputs_of_their_layer(market_file):
    pack = started(tiny_spec(market_file))
    inputs = {
        "w_s1": 32,
        "b_s1": 32,
        "w_s2": 8,
        "b_s2": 8,
        "w_d2": 8,
        "b_d2": 8,
        "w_p": 15,
        "b_p": 15,
        "w_e2": 16,
        "b_e2": 16,
    }
    for name, count in inputs.items():
        largest = float(pack.online.weights[name].abs().max())
        assert 0.5 * count**-0.5 < largest <= count**-0.5
    assert torch.equal(pack.online.params, pack.target.params)
    for name in ("sigma_w_v1", "sigma_b_m1"):  # 0.5 / sqrt(inputs), arXiv 1706.10295 section 3.2
        assert pack.online.weights[name].unique().tolist() == pytest.approx([0.5 * 8**-0.5])


@pytest.mark.parametrize("arm", ["base", "wired"])
def test_padding_is_zero_after_training(market_file, arm):
    pack = started(tiny_spec(market_file, [f"{arm} 0 0", f"{arm} 1 1"]))
    before = pack.online.params.clone()
    with torch.no_grad():
        for update in range(25):
            iterate(pack, diagnose=update % 3 == 0)
    padding = pack.layout.padding()
    buffers = (pack.online.params, pack.target.params, pack.first_moment, pack.second_moment, *pack.rows, pack.gradient)
    for buffer in buffers:
        assert not buffer[:, padding].any()
    assert (pack.online.params != before).sum() > 0.5 * 2 * (~padding).sum()
