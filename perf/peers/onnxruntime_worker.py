"""ONNX Runtime: the forward pass, all graph optimisations on. usage: onnxruntime_worker.py THREADS NETWORK BATCH"""
import worker

options = worker.arguments(["forward"])
network = worker.NETWORKS[options.network]
worker.pin(options.threads)
with worker.importing() as imported:
    import onnxruntime
    import numpy
    from onnx import TensorProto, helper, numpy_helper

nodes, weights, pairs = [], [], worker.start_weights(network)
width, here = int(numpy.prod(network.inputs)), "flat"
nodes.append(helper.make_node("Flatten", ["x"], ["flat"], axis=1))
for i, (w, b) in enumerate(pairs):
    if network.copies > 1:
        w, b = numpy.stack([w] * network.copies), numpy.stack([b[None, :]] * network.copies)
    weights += [numpy_helper.from_array(w, f"w{i}"), numpy_helper.from_array(b, f"b{i}")]
    if network.copies > 1:
        nodes += [helper.make_node("MatMul", [here, f"w{i}"], [f"p{i}"]), helper.make_node("Add", [f"p{i}", f"b{i}"], [f"z{i}"])]
    else:
        nodes.append(helper.make_node("Gemm", [here, f"w{i}", f"b{i}"], [f"z{i}"]))
    here = f"z{i}"
    if i < len(pairs) - 1:
        nodes.append(helper.make_node({"relu": "Relu", "tanh": "Tanh", "gelu": "Gelu"}[network.activation], [here], [f"a{i}"]))
        here = f"a{i}"
x, _ = worker.batch(network, options.batch)
graph = helper.make_graph(nodes, network.activation, [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(x.shape))],
                          [helper.make_tensor_value_info(here, TensorProto.FLOAT, None)], weights)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
model.ir_version = 9
settings = onnxruntime.SessionOptions()
settings.intra_op_num_threads = options.threads
settings.inter_op_num_threads = 1
settings.add_session_config_entry("session.intra_op.allow_spinning", "1")
session = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])


def forwards(n):
    for _ in range(n):
        session.run(None, {"x": x})


worker.serve({"name": f"ONNX Runtime {onnxruntime.__version__}", "threads": options.threads, "batch": options.batch, **imported}, {"forward": forwards})
