"""lm.summary: event files, read back by a reader of this test and by TensorBoard where it is installed."""
import glob
import importlib.util
import json
import math
import os
import struct
import threading
import urllib.request

import numpy as np
import pytest

import lamina as lm
from lamina import _events


def fields(message):
    """{field number: [value]} of a protobuf message; bytes of nested messages."""
    out, pos = {}, 0

    def varint():
        nonlocal pos
        value = shift = 0
        while True:
            byte = message[pos]
            pos += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while pos < len(message):
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
        elif kind == 2:
            size = varint()
            value, pos = message[pos:pos + size], pos + size
            assert len(value) == size
        else:
            size, form = {1: (8, "<d"), 5: (4, "<f")}[kind]
            (value,), pos = struct.unpack_from(form, message, pos), pos + size
        out.setdefault(key >> 3, []).append(value)
    return out


def records(path):
    """The payloads of a TFRecord file, whose checksums fit."""
    blob, pos, out = open(path, "rb").read(), 0, []
    while pos < len(blob):
        (size,) = struct.unpack_from("<Q", blob, pos)
        payload = blob[pos + 12:pos + 12 + size]
        assert len(payload) == size
        assert struct.unpack_from("<I", blob, pos + 8)[0] == _events.masked_crc32c(blob[pos:pos + 8])
        assert struct.unpack_from("<I", blob, pos + 12 + size)[0] == _events.masked_crc32c(payload)
        out.append(payload)
        pos += 16 + size
    return out


def test_checksums_are_those_of_the_standard():
    for data, crc in ((b"", 0), (b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (bytes([255] * 32), 0x62A8AB43), (bytes(range(32)), 0x46DD794E)):  # RFC 3720
        assert _events.masked_crc32c(data) == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@pytest.mark.parametrize("value", [0.25, 3, True, np.float64(1.5), np.int8(-4), lm.constant(2.5), lm.constant([7.0]), math.inf, 1e300, -1e300])
def test_a_scalar_is_what_was_written(tmp_path, value):
    with lm.summary.Writer(tmp_path) as writer:
        writer.scalar("loss/train", value, step=2**40, time=12.5)
    version, event = map(fields, records(writer.path))
    assert version[3] == [b"brain.Event:2"] and "tfevents" in os.path.basename(writer.path)
    assert event[1] == [12.5] and event[2] == [2**40]
    summary = fields(fields(event[5][0])[1][0])
    with np.errstate(over="ignore"):
        assert summary[1] == [b"loss/train"] and summary[2] == [np.float32(float(value))]


@pytest.mark.parametrize("values", [np.random.default_rng(1).normal(size=1000), np.arange(7), [3.0], [1e30, 1e30], np.full(5, 1e300), [0.1, np.nextafter(0.1, 1)], [math.nan, 2.0, -math.inf]])
def test_a_histogram_counts_every_finite_element_once(tmp_path, values):
    values = np.asarray(values, "float64")
    with lm.summary.Writer(tmp_path) as writer:
        writer.histogram("weights", values, step=-1)
    event = fields(records(writer.path)[1])
    assert event[2] == [2**64 - 1]  # -1
    told = fields(fields(fields(event[5][0])[1][0])[5][0])
    limits, counts = (struct.unpack(f"<{len(told[i][0]) // 8}d", told[i][0]) for i in (6, 7))
    finite = values[np.isfinite(values)]
    assert sum(counts) == told[3][0] == finite.size and len(limits) == len(counts) and list(limits) == sorted(limits)
    assert (told[1][0], told[2][0]) == (finite.min(), finite.max()) and limits[-1] >= finite.max()
    assert told[4][0] == pytest.approx(finite.sum())
    for i, limit in enumerate(limits[:-1]):  # a bin ends before its limit
        assert sum(counts[:i + 1]) == (finite < limit).sum()


def nodes_of(path):
    """{name: (op, inputs, attributes)}"""
    graph = fields(fields(records(path)[1])[4][0])
    out = {}
    for node in map(fields, graph[1]):
        attrs = {fields(a)[1][0].decode(): fields(fields(a)[2][0]) for a in node.get(5, [])}
        name = node[1][0].decode()
        assert name not in out
        out[name] = node[2][0].decode(), [i.decode() for i in node.get(3, [])], attrs
    for name, (_, inputs, _) in out.items():
        for i in inputs:
            assert i.lstrip("^").partition(":")[0] in out, f"{name} takes {i}, which is no node"
    return out


@pytest.mark.row("S1-10")
def test_a_graph_has_its_ops_in_their_scopes(tmp_path):
    net = lm.nn.Sequential([lm.nn.Dense(4, activation="relu", name="first layer"), lm.nn.Dense(2, name="second")], name="net")

    @lm.function
    def forward(x):
        with lm.name_scope("scaled"):
            x = x * 2
        return net(x)

    path = lm.summary.write_graph(forward, (lm.TensorSpec([None, 3]),), tmp_path / "new" / "folder")
    nodes = nodes_of(path)
    assert {"x", "scaled/mul", "net/first_layer/matmul", "net/first_layer/relu", "net/second/matmul", "net/second/kernel", "output_0"} <= set(nodes)
    assert nodes["x"][0] == "Placeholder" and nodes["net/second/kernel"][0] == "Variable"
    assert nodes["net/second/read"][1] == ["net/second/kernel"]
    assert nodes["net/second/matmul"][1] == ["net/first_layer/relu", "net/second/read"]
    shapes = fields(nodes["net/first_layer/relu"][2]["_output_shapes"][1][0])[7]
    sizes = [fields(d)[1][0] for d in fields(shapes[0])[2]]
    assert sizes == [2**64 - 1, 4]  # -1: any length
    assert os.path.basename(__file__) in fields_text(nodes["scaled/mul"][2]["line"])


def fields_text(value):
    return value[2][0].decode()


def test_branches_and_loops_contain_their_bodies(tmp_path):
    v = lm.Variable(1.0, name="v")

    def program(x):
        v.assign(lm.while_loop(lambda s: s < 9, lambda s: s * 2, lm.sum(x)))
        return lm.cond(lm.sum(x) > 0, lambda: lm.tanh(x), lambda: lm.exp(x)), lm.split(x, 2)

    nodes = nodes_of(lm.summary.write_graph(program, (lm.ones([4]),), tmp_path))
    assert nodes["assign"][0] == "assign" and nodes["assign"][1] == ["v", "while_loop"]
    assert nodes["cond/0/tanh"][0] == "tanh" and nodes["cond/1/exp"][0] == "exp" and nodes["while_loop/1/mul"][0] == "mul"
    assert {"^cond/0/tanh", "^cond/1/exp"} <= set(nodes["cond"][1])


def test_a_writer_may_be_shared_and_is_complete_after_flush(tmp_path):
    writer = lm.summary.Writer(tmp_path)

    def work(k):
        for step in range(200):
            writer.scalar(f"thread{k}", step, step)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    writer.flush()
    assert len(records(writer.path)) == 1 + 4 * 200
    other = lm.summary.Writer(tmp_path)
    assert other.path != writer.path
    writer.close(), writer.close(), other.close()
    assert "closed" in repr(writer)
    with pytest.raises(lm.errors.StateError, match="closed"):
        writer.scalar("loss", 1, 0)


def test_wrong_uses_are_errors_of_lamina(tmp_path):
    with lm.summary.Writer(tmp_path) as writer:
        for call in (lambda: writer.scalar("loss", "much", 0), lambda: writer.scalar("loss", [1.0, 2.0], 0), lambda: writer.scalar(3, 1.0, 0), lambda: writer.scalar("", 1.0, 0),
                     lambda: writer.scalar("loss", 1.0, 1.5), lambda: writer.scalar("loss", 1.0, None), lambda: writer.scalar("loss", lm.ones([2]), 0), lambda: writer.scalar("loss", 1.0, 2**63),
                     lambda: writer.histogram("w", [], 0), lambda: writer.histogram("w", [math.nan], 0), lambda: writer.histogram("w", [1.0], 0, bins=0), lambda: writer.histogram("w", ["a"], 0),
                     lambda: writer.graph(3), lambda: lm.summary.Writer(None)):
            with pytest.raises(lm.errors.Error) as error:
                call()
            assert error.value.why and error.value.fix
    assert len(records(writer.path)) == 1  # nothing half-written
    (tmp_path / "file").write_text("")
    with pytest.raises(lm.errors.BadFile, match="file"):
        lm.summary.Writer(tmp_path / "file")


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is None, reason="tensorboard is not installed: pip install tensorboard")
def test_tensorboard_shows_scalars_histograms_and_the_graph(tmp_path):
    from tensorboard import program

    net = lm.nn.Sequential([lm.nn.Dense(4, activation="relu", name="first"), lm.nn.Dense(2, name="second")], name="net")
    with lm.summary.Writer(tmp_path / "run") as writer:
        for step in range(5):
            writer.scalar("loss", 1 / (step + 1), step)
            writer.histogram("kernel", np.linspace(-1, 1, 100) * (step + 1), step)
        writer.graph(net, lm.ones([1, 3]))
    server = program.TensorBoard()
    server.configure(argv=[None, "--logdir", str(tmp_path), "--port", "0", "--load_fast", "false", "--reload_interval", "1"])
    url = server.launch()

    def get(path):
        with urllib.request.urlopen(f"{url}data/{path}", timeout=60) as answer:
            return answer.read().decode()

    for _ in range(300):  # it reads in a thread of its own
        tags = json.loads(get("plugin/scalars/tags"))
        if tags.get("run", {}).get("loss") is not None and json.loads(get("plugin/graphs/info")):
            break
        threading.Event().wait(0.1)
    points = json.loads(get("plugin/scalars/scalars?run=run&tag=loss"))
    assert [(step, value) for _, step, value in points] == [(k, pytest.approx(1 / (k + 1))) for k in range(5)]
    histograms = json.loads(get("plugin/histograms/histograms?run=run&tag=kernel"))
    assert [row[1] for row in histograms] == list(range(5)) and all(sum(b[2] for b in row[2]) == pytest.approx(100) for row in histograms)
    assert json.loads(get("plugin/graphs/info"))["run"]["run_graph"] is True
    text = get("plugin/graphs/graph?run=run&limit_attr_size=1024&large_attrs_key=_too_large_attrs")
    assert 'name: "net/first/matmul"' in text and 'op: "Placeholder"' in text and glob.glob(str(tmp_path / "run" / "*tfevents*")) == [writer.path]
