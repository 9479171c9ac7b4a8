"""The public names: documentation and signature of each, what dir() shows, and what an error says about a name that is not there."""
import builtins
import inspect
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import lamina as lm
from lamina import _elsewhere
from public_surface import callables, namespaces

# Made by Lamina alone, so that there is no call to describe.
NOT_CALLED = {"lamina.ConcreteFunction", "lamina.DType", "lamina.Function", "lamina.Tensor", "lamina.Inspection", "lamina.nn.initializers.Initializer", "lamina.optim.Optimizer", "lamina.optim.schedules.Schedule",
              "lamina.config.EagerSwitch", "lamina.config.PrecisionSwitch"}
NOT_DOCUMENTED = {"lamina.Function"}  # a function has the text of the one that it was made of


@pytest.mark.parametrize("path", sorted({path.rpartition(".")[0] for path, _ in callables()}))
def test_every_public_name_has_a_text_and_a_signature(path):
    here = [(name, value) for name, value in callables() if name.rpartition(".")[0] == path]
    assert here
    for name, value in here:
        assert name in NOT_DOCUMENTED or (value.__doc__ or "").strip(), f"{name} has no docstring"
        if name in NOT_CALLED:
            with pytest.raises(ValueError):
                inspect.signature(value)
            continue
        signature = inspect.signature(value)
        assert "self" not in list(signature.parameters)[:1] or not isinstance(value, type), f"{name}{signature}"


def text_of(value):
    """Its docstring without the signatures that nanobind puts in front."""
    lines = (inspect.getdoc(value) or "").split("\n")
    while type(value).__name__.startswith("nb_") and lines and lines[0].startswith(value.__name__ + "("):
        lines.pop(0)
    return "\n".join(lines).strip()


def test_every_public_name_and_method_has_a_text_beside_its_signature():
    seen = 0
    for name, value in callables():
        text = text_of(value)
        assert name in NOT_DOCUMENTED or text and ") -> lamina._core" not in text, name
        for member in dir(value) if isinstance(value, type) and value is not lm.Function else ():
            raw, found = inspect.getattr_static(value, member), getattr(value, member)
            if not member.startswith("_") and (callable(found) or inspect.isdatadescriptor(raw)) and not any(hasattr(base, member) for base in value.__mro__ if base.__module__ == "builtins"):
                seen += 1
                assert text_of(found if callable(found) else raw), f"{name}.{member} has no docstring"
    assert seen > 300


def test_functions_of_elements_say_shapes_dtypes_and_errors():
    seen = 0
    for name, value in callables():
        if name.startswith(("lamina.", "lamina.xp.")) and "Elementwise: " in (value.__doc__ or ""):
            seen += 1
            text = text_of(value).partition("Elementwise: ")[2]
            assert "shape" in text or "broadcast" in text, name
            assert "TypeMismatch" in text or "every dtype" in text or "computed as float32" in text, name
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "kernels", "shared", "elementwise_ops.inc"), encoding="utf-8") as table:
        functions = re.findall(r"^ELEMENTWISE\((\w+), [12], \w+, \w+, \w+, function,", table.read(), re.M)
    assert len(functions) > 60 and all("Elementwise: " in getattr(lm, name).__doc__ for name in functions) and seen > 100


def test_every_public_method_has_a_signature():
    seen = 0
    for name, value in callables():
        if not isinstance(value, type):
            continue
        for method, function in inspect.getmembers(value, callable):
            if not method.startswith("_") and value is not lm.Function and not any(hasattr(base, method) for base in value.__mro__ if base.__module__ == "builtins"):
                seen += 1
                parameters = list(inspect.signature(function).parameters.values())
                assert inspect.ismethod(function) or isinstance(function, type) or not parameters or parameters[0].name in ("self", "cls") or isinstance(inspect.getattr_static(value, method), staticmethod) or \
                    parameters[0].kind is parameters[0].VAR_POSITIONAL or type(function).__name__ == "nb_func", f"{name}.{method}"
    assert seen > 300


def test_signatures_say_how_compiled_functions_are_called():
    assert str(inspect.signature(lm.matmul)) == "(a: 'object', b: 'object', transpose_a: 'bool' = False, transpose_b: 'bool' = False)"
    assert list(inspect.signature(lm.Tensor.reshape).parameters) == ["self", "args"] and list(inspect.signature(lm.ones([2]).reshape).parameters) == ["args"]
    parameters = inspect.signature(lm.optim.Adam).parameters
    assert parameters["beta_1"].default == 0.9 and parameters["learning_rate"].default == 0.001
    assert inspect.signature(lm.conv2d).parameters["padding"].default == "valid"
    bound = inspect.signature(lm.sum).bind(1, axis=2)
    bound.apply_defaults()
    assert bound.arguments == {"x": 1, "axis": 2, "keepdims": False}

    class Own(lm.optim.SGD):
        def __init__(self, rate, times=2):
            super().__init__(rate * times)

    assert list(inspect.signature(Own).parameters) == ["rate", "times"]

    @lm.function
    def step(x, *, scale: float = 2.0):
        """Scales."""
        return x * scale

    assert str(inspect.signature(step)) == "(x, *, scale: float = 2.0)" and step.__doc__ == "Scales." and step.__name__ == "step"


def test_dir_shows_names_for_users():
    assert set(dir(lm)) == {*lm.__all__, *lm._SUBMODULES} and not [name for name in dir(lm) if name.startswith("_") and name != "__version__"]
    for name in dir(lm):
        assert getattr(lm, name) is not None
    program = "import lamina, sys; assert 'numpy' not in sys.modules; dir(lamina); assert 'numpy' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}).returncode == 0


def said(module, name):
    with pytest.raises(AttributeError) as error:
        getattr(module, name)
    text = str(error.value)
    assert name in text and "  where: " in text and "  why:   " in text and __file__ in text
    return re.search(r"  fix:   (.*)", text)[1]


def leads_somewhere(written):
    """Whether the names of lm in a text exist."""
    for dotted in re.findall(r"\blm((?:\.[A-Za-z_]\w*)+)", written):
        value = lm
        for part in dotted[1:].split("."):
            if isinstance(value, (type(lm.function(lambda: 1)), type)) and not hasattr(value, part):
                return False
            value = getattr(value, part)
    return True


def test_every_name_of_other_frameworks_leads_to_one_that_exists():
    for name, instead in _elsewhere.NAMES.items():
        assert not hasattr(lm, name) and name not in _elsewhere.WRITTEN, name
        assert said(lm, name) == f"write lm.{instead}" and leads_somewhere("lm." + re.split(r"[(:,]", instead)[0]), name
    for name, written in _elsewhere.WRITTEN.items():
        assert not hasattr(lm, name) and said(lm, name) == f"write {written}" and leads_somewhere(written), name
        assert not (found := re.match(r"x\.(\w+)", written)) or hasattr(lm.Tensor, found[1]), name
    for place, names in _elsewhere._IN.items():
        module = lm
        for part in place.split(".")[1:]:
            module = getattr(module, part)
        for name, written in names.items():
            assert not hasattr(module, name) and said(module, name) == f"write {written}" and leads_somewhere(written), name


def test_no_name_of_numpy_is_guessed():
    """What NumPy has and Lamina has not is another name here, or is said not to be there: similar letters say nothing."""
    mapped = 0
    for name in np.__all__:
        if name.startswith("_") or hasattr(lm, name):
            continue
        fix = said(lm, name)
        mapped += fix.startswith("write ")
        assert fix.startswith("write ") or fix == f"use np.{name} on x.numpy(), outside of traced functions, or compose it of ops", name
    assert mapped > 60


@pytest.mark.parametrize("module, name, fix", [
    (lm, "sotfmax", "did you mean 'softmax'?"), (lm, "ravell", "did you mean 'ravel'?"), (lm, "topk", "did you mean 'top_k'?"), (lm, "Matmul", "did you mean 'matmul'?"), (lm, "zero", "did you mean 'zeros'?"),
    (lm, "Dense", "write lm.nn.Dense"), (lm, "AdamW", "write lm.optim.AdamW"), (lm, "Dataset", "write lm.data.Dataset"), (lm, "mse", "write lm.losses.mse"), (lm, "inv", "write lm.linalg.inv"),
    (lm, "svd", "write lm.linalg.svd"), (lm.linalg, "inverse", "write lm.linalg.inv"), (lm.fft, "fft_shift", "did you mean 'fftshift'?"), (lm.nn, "Linear", "write lm.nn.Dense"),
    (lm.nn, "Conv2d", "did you mean 'Conv2D'?"), (lm.nn, "relu", "write lm.relu"), (lm.nn, "Adam", "write lm.optim.Adam"), (lm.nn, "Quantum", "dir(lm.nn) lists what there is"), (lm, "cross_entropy", "write lm.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)"), (lm, "tree_map", "write lm.tree.map"),
    (lm, "finfo", "write np.finfo(np.float32)"), (lm, "swish", "write lm.silu"), (lm, "autograd", "write lm.grad, or lm.GradientTape"), (lm.random, "PRNGKey", "write lm.random.key"), (lm.random, "randn", "write lm.random.normal"),
    (lm.config, "list_physical_devices", "write lm.config.list_devices"), (lm.cuda, "device_count", 'write len(lm.config.list_devices("gpu"))'), (lm.nn.initializers, "kaiming_normal_", "write lm.nn.initializers.he_normal"),
    (lm.nn.initializers, "GlorotUniform", "did you mean 'glorot_uniform'?"), (lm.metrics, "SparseCategoricalAccuracy", "write lm.metrics.Accuracy"), (lm.optim.schedules, "CosineAnnealingLR", "write lm.optim.schedules.CosineDecay"),
    (lm.optim, "adam", "did you mean 'Adam'?"), (lm.losses, "CrossEntropyLoss", "write lm.losses.SparseCrossEntropy(from_logits=True)"),
    (lm, "load_model", "write lm.nn.load_file"), (lm.nn, "load_model", "write lm.nn.load_file"), (lm.nn, "models", "write lm.nn"), (lm.nn, "plot_model", "write model.plot(path)"), (lm, "to_categorical", "write lm.one_hot"),
    (lm, "set_random_seed", "write lm.random.set_seed"), (lm.onnx, "export", "write lm.onnx.save"), (lm.profiler, "profile", "write lm.profiler.record()"), (lm.profiler, "start_trace", "write with lm.profiler.trace(dir):"),
    (lm.metrics, "accuracy_", "did you mean 'accuracy'?"), (lm.data, "DataLoader", "write lm.data.Dataset")])
def test_what_is_said_about_a_name(module, name, fix):
    assert said(module, name) == fix and not hasattr(module, name)


def test_no_public_name_is_meant_as_another_one():
    names = [name for _, _, names in namespaces() for name in names]
    assert all(_elsewhere._near(name, name) for name in names)
    for given, name in (("save", "ravel"), ("cos", "cosh"), ("log", "long"), ("abs", "add"), ("flip", "full"), ("min", "max")):
        assert not _elsewhere._near(given, name)
    assert not set(dir(builtins)) & set(_elsewhere.WRITTEN) - {"slice"}


@pytest.mark.parametrize("module, names", [
    (lm, "celu prelu rrelu crelu conv conv3d avg_pool1d max_pool1d igamma pmean pswapaxes smap pool dtensor qint8 quint8 int4 uint1 cos_p exp_p sin_p fill_ exponential get poisson record"),
    (lm.nn, "Conv3D Conv3d AvgPool3D MaxPool3d PReLU RReLU ReLU6 CELU UpSampling1D ZeroPadding1D DepthwiseConv1D GlobalAveragePooling3D Transformer Bilinear"), (lm.optim, "RAdam Adamax Adadelta Muon"),
    (lm.linalg, "eig eigvals"), (lm.losses, "poisson Poisson CTC"), (lm.metrics, "poisson Sum"), (lm.random, "cauchy laplace geometric"), (lm.nn.initializers, "lecun_normal VarianceScaling dirac_")])
def test_names_of_what_there_is_not_get_no_guess(module, names):
    """Other first letters or digits, and names that mean something else in another part, are other things."""
    for name in names.split():
        fix = said(module, name)
        assert fix.startswith(("dir(", "use np.")), (name, fix)


@pytest.mark.parametrize("module", [lm.nn, lm.optim, lm.optim.schedules, lm.losses, lm.metrics, lm.data, lm.linalg, lm.random, lm.config, lm.cuda, lm.nn.initializers, lm.nn.regularizers], ids=lambda m: m.__name__)
def test_dir_of_a_part_shows_names_for_users(module):
    assert not {"annotations", "errors", "os", "math", "TYPE_CHECKING", "flatten", "Tensor"} & set(dir(module))
    assert all(getattr(module, name) is not None for name in dir(module) if not name.startswith("_"))


@pytest.mark.parametrize("value", [lm.ones([3]), lm.Variable([1.0, 2.0, 3.0])], ids=["tensor", "Variable"])
def test_assigning_an_element_points_to_at(value):
    for change in ("value[0] = 1", "value[0] += 1", "value[...] = 0", "del value[0]"):
        with pytest.raises(lm.errors.TypeMismatch) as error:
            exec(change, {"value": value})
        assert "in place" in str(error.value) and (change.startswith("del") or "at[...].set(value)" in error.value.fix)
    assert lm.all(value.at[0].set(7.0) == lm.constant([7.0, *value.numpy()[1:].tolist()]))


@pytest.mark.parametrize("first", ["data", "nn", "optim", "losses", "metrics", "onnx", "summary", "profiler", "distributed", "autograph", "testing", "progress", "quantization", "vmap", "module"])
def test_each_module_can_be_the_first_that_is_imported(first):
    for program in (f"import lamina as lm; lm.{first}", f"from lamina import {first}", f"import lamina.{first}"):
        done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, text=True)
        if program.startswith("import lamina as") and first in ("quantization", "module"):
            continue  # not for users
        assert done.returncode == 0, (program, done.stderr)
