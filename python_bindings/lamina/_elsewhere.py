"""Names in NumPy, TensorFlow, JAX and PyTorch for things with another name here: for the error when someone uses them."""
from __future__ import annotations

# their name -> the name after "lm."
NAMES = {
    "Print": "print", "Session": "Graph", "TensorArray": "stack(out), with a Python list that the loop appends to",
    "absolute": "abs", "accuracy": "metrics.accuracy", "add_n": "sum(lm.stack(values), 0)", "arccos": "acos", "arcsin": "asin", "arctan": "atan", "arctan2": "atan2", "array": "constant", "as_tensor": "constant",
    "asarray": "constant", "assert_equal": "check(lm.all(a == b), ...), or assert", "batch_gather": "take_along_axis", "cast": "astype", "cat": "concat", "clamp": "clip",
    "clip_by_value": "clip", "compile": "function", "concatenate": "concat", "convert_to_tensor": "constant", "dstack": "concat",
    "hstack": "concat", "identity": "eye", "index_select": "take", "jacfwd": "jacobian", "jacrev": "jacobian", "jit": "function", "lax": "scan, lm.cond or lm.while_loop",
    "map_fn": "vmap", "mm": "matmul", "multiply": "mul", "mv": "matmul", "negative": "neg", "no_grad": "GradientTape: outside of a tape nothing is recorded, and tape.stop_recording() stops it inside",
    "no_gradient": "stop_gradient", "permute": "transpose", "placeholder": "Graph().input",
    "power": "pow", "quantize_dynamic": "quantize", "quantize_per_channel": "quantize", "quantize_per_tensor": "quantize", "quantize_static": "quantize", "rand": "random.uniform", "randint": "random.integers", "randn": "random.normal", "reduce_all": "all", "reduce_any": "any", "reduce_logsumexp": "logsumexp",
    "reduce_max": "max", "reduce_mean": "mean", "reduce_min": "min", "reduce_prod": "prod", "reduce_std": "std", "reduce_sum": "sum", "reduce_variance": "var", "rint": "round",
    "scatter": "scatter_nd, or x.at[...].set(...)", "segment_sum": "scatter_add", "sigmoid_cross_entropy": "losses", "subtract": "sub", "switch_case": "switch", "tensor": "constant",
    "tensor_scatter_nd_add": "scatter_add", "true_divide": "div", "divide": "div", "truediv": "div", "unsqueeze": "expand_dims", "unstack": "split, or for row in x",
    "vstack": "concat",
}
