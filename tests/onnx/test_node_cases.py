"""The node cases of the package onnx: at least 85 % of those in Lamina's dtypes pass, and misses.txt says which do not, and why."""
import os
import warnings

import numpy as np
import pytest

import lamina as lm

pytest.importorskip("onnx.checker", reason="the package onnx is not installed: ./dev setup, or pip install onnx")
import onnx  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
EXPECTED = os.path.join(HERE, "misses.txt")
FOUND = os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "onnx_misses.txt")
DTYPES = {onnx.TensorProto.DataType.Value(name) for name in ("BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FLOAT16", "BFLOAT16", "FLOAT", "DOUBLE")}
WHY = {  # of numbers that differ, by how the case's name begins
    "test_attention": "the case rounds to half precision after other steps, and its tolerance is below half precision's own",
    "test_bernoulli": "the case has other random numbers", "test_training_dropout": "the case has other random numbers",
    "test_dft": "the case wants the rounding errors of another algorithm: its zeros are 2e-7",
}


def dtypes_of(type_proto):
    kind = type_proto.WhichOneof("value")
    if kind == "tensor_type":
        return {type_proto.tensor_type.elem_type}
    inside = {"sequence_type": type_proto.sequence_type, "optional_type": type_proto.optional_type}.get(kind)
    return {None} if inside is None else dtypes_of(inside.elem_type)


def cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases
        every = collect_testcases(None)
    values = lambda case: [*case.model.graph.input, *case.model.graph.output]
    return len(every), [case for case in every if set().union(*(dtypes_of(v.type) for v in values(case))) <= DTYPES]


def array(value):
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return [array(v) for v in value] if isinstance(value, (list, tuple)) else value


def compare(wanted, got, case):
    if wanted is None or got is None:
        assert wanted is got
    elif isinstance(wanted, list):
        assert isinstance(got, list) and len(got) == len(wanted)
        for a, b in zip(wanted, got):
            compare(a, b, case)
    else:
        wanted = np.asarray(wanted)
        assert got.dtype.name == str(wanted.dtype) and tuple(got.shape) == wanted.shape
        half = got.dtype.name == "bfloat16"
        np.testing.assert_allclose((lm.astype(got, lm.float32) if half else got).numpy(), wanted.astype(np.float32) if half else wanted, case.rtol, case.atol)


def miss(case, folder):
    """Why a case fails; "" when it passes."""
    path = os.path.join(folder, "case.onnx")
    onnx.save(case.model, path)
    try:
        network = lm.onnx.load(path)
        for inputs, outputs in case.data_sets:
            got = network(*map(array, inputs))
            got = got if isinstance(got, tuple) else (got,)
            assert len(got) == len(outputs)
            for wanted, value in zip(outputs, got):
                compare(array(wanted), value, case)
    except lm.errors.Error as error:
        assert error.what and error.why and error.fix, error
        return error.what.partition("\n")[0] + ": " + error.why.partition("\n")[0]
    except AssertionError:
        return "other numbers: " + next((why for name, why in WHY.items() if case.name.startswith(name)), "?")
    return ""


def misses(chosen, folder):
    lines = []
    for case in chosen:
        lm.random.set_seed(0)
        why = miss(case, str(folder))
        if why:
            lines.append(f"{case.name} | {' '.join(sorted({node.op_type for node in case.model.graph.node})[:4])} | {why}")
    return sorted(lines)


def report(total, chosen, found):
    passed = len(chosen) - len(found)
    return f"{total:,} node cases, {len(chosen):,} in Lamina's dtypes: {passed:,} pass, {100 * passed / len(chosen):.1f} %; {len(found)} do not"


def test_NodeCasesPassButTheListedOnes(tmp_path, capsys):
    total, chosen = cases()
    found = misses(chosen, tmp_path)
    with capsys.disabled():
        print("\n" + report(total, chosen, found))
    os.makedirs(os.path.dirname(FOUND), exist_ok=True)
    with open(FOUND, "w") as file:
        file.write("\n".join(found) + "\n")
    assert len(chosen) >= 1500 and len(found) <= 0.15 * len(chosen)
    with open(EXPECTED) as file:
        expected = file.read().splitlines()
    assert found == expected, f"{FOUND} and {EXPECTED} differ"


if __name__ == "__main__":
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        total, chosen = cases()
        found = misses(chosen, folder)
    with open(EXPECTED, "w") as file:
        file.write("\n".join(found) + "\n")
    print(report(total, chosen, found))
