"""Networks whose shapes follow from lengths that a trace leaves open: their numbers are those of the same network with fixed lengths, or they are refused."""
import numpy as np
import pytest

import lamina as lm

pytest.importorskip("onnx.checker", reason="the package onnx is not installed: ./dev setup, or pip install onnx")
import onnx  # noqa: E402

HEAD = '''<ir_version: 8, opset_import: ["": 17]> net (float[n, 6] x{more}) => ({out} y) {{
    s = Shape(x)  at = Constant<value = int64 {{0}}>()  n = Gather<axis = 0>(s, at)  zero = Constant<value = int64[1] {{0}}>()  n1 = Unsqueeze(n, zero)
    one = Constant<value = int64[1] {{1}}>()  two = Constant<value = int64[1] {{2}}>()  last = Constant<value = int64[1] {{-1}}>()  six = Constant<value = int64[1] {{6}}>()
    row = Constant<value = float[1, 6] {{1, 2, 3, 4, 5, 6}}>() {body} }}'''

RIGHT = {  # body, and the type of y
    "slice to the end": "y = Slice(x, zero, n1, zero)",
    "slice to one before the end": "e = Sub(n1, one) y = Slice(x, zero, e, zero)",
    "slice of the last": "e = Sub(n1, one) y = Slice(x, e, n1, zero)",
    "slice of nothing": "y = Slice(x, n1, n1, zero)",
    "slice of columns by rows": "y = Slice(x, zero, n1, one)",
    "turned around": "e = Constant<value = int64[1] {-9223372036854775807}>() y = Slice(x, last, e, zero, last)",
    "to the largest int32": "e = Constant<value = int64[1] {2147483647}>() y = Slice(x, one, e, zero)",
    "twice as many rows": "e = Mul(n1, two) t = Concat<axis = 0>(e, last) y = Reshape(x, t)",
    "rows behind columns": "t = Concat<axis = 0>(six, n1) y = Reshape(x, t)",
    "doubled and halved": "e = Mul(n1, two) h = Div(e, two) t = Concat<axis = 0>(h, last) y = Reshape(x, t)",
    "as many rows": "t = Concat<axis = 0>(n1, six) e = Expand(row, t) y = Concat<axis = 1>(x, e)",
    "PyTorch's expand": "t = Concat<axis = 0>(n1, six) m = ConstantOfShape<value = int64[1] {-1}>(two) q = Equal(t, m) o = ConstantOfShape<value = int64[1] {1}>(two)"
                        " w = Where(q, o, t) e = Expand(row, w) y = Concat<axis = 1>(x, e)",
    "zeros": "t = Concat<axis = 0>(n1, six) e = ConstantOfShape(t) y = Add(x, e)",
    "tiles": "t = Concat<axis = 0>(n1, one) e = Tile(row, t) y = Add(x, e)",
    "tiles of rows": "t = Concat<axis = 0>(two, one) e = Tile(x, t) y = Mul(e, e)",
    "mean": "c = Cast<to = 1>(n) q = ReduceSum<keepdims = 0>(x) y = Div(q, c)",
    "half of the rows, as a number": "h = Div(n1, two) y = Cast<to = 1>(h)",
    "last row": "e = Sub(n1, one) y = Gather<axis = 0>(x, e)",
    "one row less": "p = Constant<value = int64[4] {-1, 0, 0, 0}>() y = Pad(x, p)",
    "enlarged": "t = Constant<value = int64[4] {0, 1, 2, 3}>() i = Reshape(x, t) z = Constant<value = float[4] {1, 1, 2, 2}>() y = Resize(i, , z)",
    "flat": "y = Flatten<axis = 0>(x)",
    "one hot": "a = ArgMax<axis = 1, keepdims = 0>(x) v = Constant<value = float[2] {0, 1}>() y = OneHot(a, six, v)",
    "recurrent": "t = Constant<value = int64[3] {0, 2, 3}>() i = Reshape(x, t) z = Transpose<perm = [1, 0, 2]>(i) w = ConstantOfShape<value = float[1] {0.1}>(ws) r = ConstantOfShape<value = float[1] {0.2}>(rs) "
                 "y, h, c = LSTM<hidden_size = 2>(z, w, r)",
}
WHOLE = {
    "counted": "c = Constant<value = int64 {0}>() d = Constant<value = int64 {1}>() y = Range(c, n, d)",
    "counted in int32": "k = Cast<to = 6>(n) c = Constant<value = int32 {0}>() d = Constant<value = int32 {1}>() r = Range(c, k, d) y = Cast<to = 7>(r)",
    "shape": "y = Shape(x)",
    "size": "y = Size(x)",
    "by int32 and back": "k = Cast<to = 6>(n1) b = Cast<to = 7>(k) y = ConstantOfShape<value = int64[1] {3}>(b)",
}
REFUSED = {
    "half of the rows": "h = Div(n1, two) y = Slice(x, zero, h, zero)",
    "half and the rest": "h = Div(n1, two) t = Concat<axis = 0>(h, last) y = Reshape(x, t)",
    "half, 2 and the rest": "h = Div(n1, two) t = Concat<axis = 0>(h, two, last) y = Reshape(x, t)",
    "pairs of rows": "h = Div(n1, two) k = Constant<value = int64[1] {12}>() t = Concat<axis = 0>(h, k) y = Reshape(x, t)",
    "padded": "p = Concat<axis = 0>(zero, zero, zero, n1) y = Pad(x, p)",
    "so many largest": "y, i = TopK<axis = 0>(x, n1)",
}


def network(tmp_path, body, out="float[]", more=""):
    body = body.replace("(ws)", "(ws0)").replace("(rs)", "(rs0)")
    if "ws0" in body:
        body = "ws0 = Constant<value = int64[3] {1, 8, 3}>() rs0 = Constant<value = int64[3] {1, 8, 2}>() " + body
    model = onnx.parser.parse_model(HEAD.format(body=body, out=out, more=more))
    shape = model.graph.output[0].type.tensor_type
    shape.ClearField("shape")
    model = onnx.shape_inference.infer_shapes(model)
    if not model.graph.output[0].type.tensor_type.HasField("shape"):
        model.graph.output[0].type.tensor_type.shape.SetInParent()
    path = tmp_path / "net.onnx"
    onnx.save(model, path)
    return lm.onnx.load(path)


def test_RightNumbersForEveryLength(tmp_path):
    wrong = []
    for name, body in {**RIGHT, **WHOLE}.items():
        net = network(tmp_path, body, "float" if name in RIGHT else "int64")
        step = lm.function(net, input_signature=[lm.TensorSpec([None, 6])])
        lm.save(net, tmp_path / "net")
        again = lm.load(tmp_path / "net")
        for n in (4, 2, 6):
            x = np.arange(n * 6, dtype=np.float32).reshape(n, 6)
            wanted = net(x)
            wanted = wanted[0] if isinstance(wanted, tuple) else wanted
            for given in (step(x), again(x)):
                given = given[0] if isinstance(given, tuple) else given
                if given.shape != wanted.shape or given.dtype != wanted.dtype or not np.allclose(given.numpy(), wanted.numpy()):
                    wrong.append((name, n, given, wanted))
        assert step.trace_count == 1, name
    assert not wrong


@pytest.mark.parametrize("name", REFUSED)
def test_WhatNoDimensionSaysIsRefused(name, tmp_path):
    net = network(tmp_path, REFUSED[name], "float")
    assert net(np.ones((4, 6), np.float32)) is not None
    with pytest.raises(lm.errors.InvalidArgument, match="ONNX node.* (Slice|Reshape|Pad|TopK) ") as caught:
        lm.function(net, input_signature=[lm.TensorSpec([None, 6])])(np.ones((4, 6), np.float32))
    assert "open" in caught.value.why and "fixed" in caught.value.fix


def test_LengthsOfTwoInputsAreTwo(tmp_path):
    net = network(tmp_path, "m = Shape(z) t = Concat<axis = 0>(m, last) y = Reshape(x, t)", more=", float[m] z")
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    assert net(x, np.ones(2, np.float32)).shape == (2, 12)
    with pytest.raises(lm.errors.InvalidArgument, match="Reshape"):
        lm.function(net, input_signature=[lm.TensorSpec([None, 6]), lm.TensorSpec([None])])(x, np.ones(2, np.float32))


def test_AnInputMayHoldAnyNumber(tmp_path):
    body = "e = Identity(z) y = Slice(x, last, e, zero, last)"
    net = network(tmp_path, body, more=", int64[1] z")
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    for end in (-2**63, -2**63 + 1, -2**31, -100):
        assert np.array_equal(net(x, np.array([end])).numpy(), x[::-1])
