"""lm.sklearn: scikit-learn's own checks, its losses for the same random_state, and ensembles."""
import copy
import importlib.util
import os
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest

import lamina as lm

LONG = bool(os.environ.get("LAMINA_TEST_LONG"))
needs_sklearn = pytest.mark.skipif(importlib.util.find_spec("sklearn") is None, reason="scikit-learn is not installed: ./dev setup brings it")
NAMES = ["MLPRegressor", "MLPClassifier", "EnsembleRegressor", "EnsembleClassifier"]


def small(name, **options):
    cls = getattr(lm.sklearn, name)
    return cls(hidden_layer_sizes=(20,), **(dict(n_estimators=3, learning_rate_init=0.01, bootstrap=False) if "Ensemble" in name else {}) | dict(max_iter=100) | options)


def regression(rows=310, outputs=1, seed=0):
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(rows, 5))
    y = np.stack([np.sin(x[:, k]) + x[:, k + 1] * x[:, k + 2] + 0.1 * draw.normal(size=rows) for k in range(outputs)], 1)
    return x, y[:, 0] if outputs == 1 else y


def classes(count, rows=310):
    x, y = regression(rows)
    return x, np.array(["red", "green", "blue"])[np.digitize(y, np.quantile(y, np.arange(1, count) / count))]


@needs_sklearn
@pytest.mark.parametrize("name", NAMES if LONG else NAMES[1:3])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks_pass(name):
    from sklearn.utils.estimator_checks import check_estimator

    found = check_estimator(small(name), on_skip=None)
    assert sum(one["status"] == "passed" for one in found) > 50 and not [one for one in found if one["status"] not in ("passed", "skipped")]


@needs_sklearn
@pytest.mark.filterwarnings("ignore")
def test_a_bootstrap_fails_one_check_as_scikit_learns_own_does():
    """Rows are drawn: a weight of 2 is not the same as a row given twice."""
    from sklearn.utils.estimator_checks import check_estimator

    found = check_estimator(small("EnsembleRegressor", bootstrap=True), expected_failed_checks={"check_sample_weight_equivalence_on_dense_data": "rows are drawn"}, on_skip=None)
    assert [one["check_name"] for one in found if one["status"] not in ("passed", "skipped")] == ["check_sample_weight_equivalence_on_dense_data"]


@needs_sklearn
@pytest.mark.parametrize("options", [{}, {"early_stopping": True}, {"activation": "logistic", "alpha": 1.0}, {"solver": "sgd", "learning_rate_init": 0.01}, {"shuffle": False, "batch_size": 64}])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.filterwarnings("ignore")
def test_losses_are_those_of_scikit_learn(options, weighted, outputs):
    from sklearn.neural_network import MLPRegressor

    x, y = regression(outputs=outputs)
    weights = np.random.default_rng(1).uniform(size=len(x)) if weighted else None
    options = dict(hidden_layer_sizes=(16, 8), max_iter=12, random_state=1) | options
    theirs, ours = (cls(**options).fit(x, y, sample_weight=weights) for cls in (MLPRegressor, lm.sklearn.MLPRegressor))
    np.testing.assert_allclose(ours.loss_curve_, theirs.loss_curve_, rtol=1e-5)
    np.testing.assert_allclose(ours.predict(x), theirs.predict(x), rtol=1e-4, atol=1e-5)
    assert ours.n_iter_ == theirs.n_iter_ and ours.t_ == theirs.t_ and ours.n_layers_ == theirs.n_layers_
    for a, b in zip(ours.coefs_ + ours.intercepts_, theirs.coefs_ + theirs.intercepts_):
        np.testing.assert_allclose(a, b, atol=1e-5)
    if "early_stopping" in options:
        np.testing.assert_allclose(ours.validation_scores_, theirs.validation_scores_, atol=1e-5)


@needs_sklearn
@pytest.mark.parametrize("kind", [2, 3, "labels"])
@pytest.mark.filterwarnings("ignore")
def test_probabilities_are_those_of_scikit_learn(kind):
    from sklearn.neural_network import MLPClassifier

    x, y = classes(kind) if kind != "labels" else (regression()[0], (regression()[0][:, :3] > 0).astype(int))
    options = dict(hidden_layer_sizes=(16,), max_iter=12, random_state=1)
    theirs, ours = (cls(**options).fit(x, y) for cls in (MLPClassifier, lm.sklearn.MLPClassifier))
    np.testing.assert_allclose(ours.predict_proba(x), theirs.predict_proba(x), atol=1e-5)
    np.testing.assert_allclose(ours.predict_log_proba(x), np.log(ours.predict_proba(x)))
    np.testing.assert_array_equal(ours.predict(x), theirs.predict(x))
    assert ours.score(x, y) == theirs.score(x, y) and np.array_equal(ours.classes_, theirs.classes_)


@needs_sklearn
@pytest.mark.filterwarnings("ignore")
def test_partial_fit_and_warm_start_go_on_as_scikit_learns_do():
    from sklearn.neural_network import MLPClassifier

    x, y = classes(3)
    found = []
    for cls in (MLPClassifier, lm.sklearn.MLPClassifier):
        net = cls(hidden_layer_sizes=(16,), random_state=1)
        for part in range(0, 300, 100):
            net.partial_fit(x[part:part + 100], y[part:part + 100], classes=np.unique(y))
        warm = cls(hidden_layer_sizes=(16,), random_state=1, max_iter=4, warm_start=True)
        warm.fit(x, y).fit(x, y)
        found.append((net.loss_curve_, warm.loss_curve_))
    for ours, theirs in zip(*found):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    with pytest.raises(ValueError, match="the first call needs classes"):
        lm.sklearn.MLPClassifier().partial_fit(x, y)
    with pytest.raises(ValueError, match="are not those of the first call"):
        net.partial_fit(x, y, classes=["red"])
    with pytest.raises(ValueError, match="early_stopping holds rows out"):
        lm.sklearn.MLPRegressor(early_stopping=True).partial_fit(*regression())


@needs_sklearn
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name, options", [("MLPRegressor", {"solver": "lbfgs", "tol": 1e-7}), ("EnsembleRegressor", {"n_estimators": 1, "bootstrap": False, "learning_rate_init": 0.02, "tol": 0, "n_iter_no_change": 999, "batch_size": 50})])
def test_of_several_outputs_the_sum_of_the_squares_is_minimised(name, options):
    x, y = regression(50, outputs=3)
    found = getattr(lm.sklearn, name)(hidden_layer_sizes=(), activation="identity", alpha=30.0, max_iter=999, **options).fit(x, y)
    a, b = x - x.mean(0), y - y.mean(0)
    kernel = np.linalg.solve(a.T @ a + 30 * np.eye(5), a.T @ b)  # ridge regression
    left = b - a @ kernel
    np.testing.assert_allclose(np.squeeze(found.coefs_[0]), kernel, atol=1e-4)
    assert found.loss_ == pytest.approx((left ** 2).mean() / 2 + 15 * (kernel ** 2).sum() / 50, rel=1e-4)


@needs_sklearn
def test_lbfgs_finds_what_scikit_learns_finds():
    from sklearn.neural_network import MLPRegressor

    x, y = regression(200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = (cls(hidden_layer_sizes=(10,), activation="tanh", solver="lbfgs", max_iter=300, random_state=0, alpha=0.1).fit(x, y) for cls in (MLPRegressor, lm.sklearn.MLPRegressor))
    assert ours.loss_ < 1.1 * theirs.loss_ and ours.score(x, y) > 0.9
    with pytest.raises(AttributeError, match="solver='lbfgs' needs all rows"):
        ours.partial_fit(x, y)
    with pytest.raises(lm.errors.TypeMismatch, match="no argument 'no_such_name'"):
        ours.fit(x, y, no_such_name=1)


@needs_sklearn
@pytest.mark.filterwarnings("ignore")
def test_it_works_in_pipelines_and_searches_and_pickles_and_trains_on():
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, y = regression()
    search = GridSearchCV(make_pipeline(StandardScaler(), lm.sklearn.MLPRegressor(max_iter=60, random_state=0)), {"mlpregressor__hidden_layer_sizes": [(2,), (32,)]}, cv=2).fit(x, y)
    assert search.best_params_ == {"mlpregressor__hidden_layer_sizes": (32,)}
    for net in (search.best_estimator_[-1], small("EnsembleRegressor", random_state=0).fit(x, y)):
        for twin in (pickle.loads(pickle.dumps(net)), copy.deepcopy(net)):
            np.testing.assert_array_equal(twin.predict(x), net.predict(x))
            own = copy.deepcopy(net)
            assert twin.partial_fit(x, y).loss_ == own.partial_fit(x, y).loss_


@needs_sklearn
@pytest.mark.filterwarnings("ignore")
def test_a_fit_leaves_lm_random_alone_and_follows_random_state():
    x, y = regression(100)
    before = lm.random.get_state()
    fits = [small("MLPRegressor", random_state=seed, max_iter=5).fit(x, y).predict(x) for seed in (0, 0, 1)]
    fits += [small("EnsembleRegressor", random_state=0, max_iter=5).fit(x, y).predict(x) for _ in range(2)]
    assert list(lm.random.get_state()) == list(before)
    assert np.array_equal(fits[0], fits[1]) and not np.array_equal(fits[0], fits[2]) and np.array_equal(fits[3], fits[4])


@needs_sklearn
@pytest.mark.filterwarnings("ignore")
def test_the_arithmetic_has_the_dtype_of_the_inputs():
    x, y = regression(100)
    for dtype in ("float32", "float64"):
        net = small("MLPRegressor", max_iter=2).fit(x.astype(dtype), y)
        assert {v.dtype.name for v in net.model_.variables} == {dtype}


@needs_sklearn
@pytest.mark.filterwarnings("ignore")
def test_an_ensemble_is_the_mean_of_its_members():
    x, y = regression(600)
    test_x, test_y = regression(400, seed=5)
    nets = lm.sklearn.EnsembleRegressor(6, (32,), max_iter=60, learning_rate_init=0.01, random_state=0).fit(x, y)
    mean, spread = nets.predict(test_x, return_std=True)
    members = np.stack([net(test_x).numpy()[:, 0] for net in nets.model_])
    np.testing.assert_allclose(mean, members.mean(0), rtol=1e-6)
    np.testing.assert_allclose(spread, members.std(0), rtol=1e-5)
    errors = np.mean((members - test_y) ** 2, 1)
    assert np.mean((mean - test_y) ** 2) < 0.9 * errors.mean() and len(nets.model_) == 6
    alone = lm.sklearn.EnsembleRegressor(1, (32,), max_iter=20, bootstrap=False, random_state=3).fit(x, y)
    one = lm.sklearn.MLPRegressor((32,), max_iter=20, random_state=3).fit(x, y)
    np.testing.assert_allclose(alone.predict(x), one.predict(x), rtol=1e-6, atol=1e-7)
    several = lm.sklearn.EnsembleClassifier(4, (16,), max_iter=40, learning_rate_init=0.01, random_state=0).fit(*classes(3))
    chances = several.predict_proba(x)
    np.testing.assert_allclose(chances.sum(1), 1)
    assert several.score(*classes(3)) > 0.7


@needs_sklearn
@pytest.mark.parametrize("options, text", [({"max_iter": 0}, "max_iter=0 is not a whole number from 1"), ({"tol": np.ones(2)}, "tol=array.* is not a number from 0"), ({"max_iter": 0.5}, "max_iter=0.5 is not a whole"), ({"alpha": -1}, "alpha=-1 is not a number from 0"), ({"hidden_layer_sizes": (3, -2)}, "is not a whole number from 1, or several"),
                                           ({"batch_size": -4}, "batch_size=-4"), ({"validation_fraction": 1.5}, "from 0 to 1"), ({"solver": "adamm"}, "there is no optimizer named 'adamm'")])
def test_parameters_that_do_not_fit_are_named(options, text):
    with pytest.raises(lm.errors.Error, match=text):
        lm.sklearn.MLPRegressor(**options).fit(*regression(20))
    with pytest.raises(ValueError, match="n_estimators=0"):
        lm.sklearn.EnsembleRegressor(0).fit(*regression(20))
    with pytest.raises(ValueError, match="take another solver"):
        lm.sklearn.EnsembleRegressor(2, solver="lbfgs").fit(*regression(20))


@needs_sklearn
@pytest.mark.parametrize("kind", ["MLPRegressor", "MLPClassifier", "EnsembleRegressor", "EnsembleClassifier"])
def test_half_made_estimators_say_what_they_lack(kind):
    made = getattr(lm.sklearn, kind)
    for method in ("fit", "partial_fit"):
        with pytest.raises(lm.errors.StateError, match="__init__ has not run"):
            getattr(made.__new__(made), method)(np.ones((4, 2)), np.ones(4))


def test_without_scikit_learn_an_error_says_what_to_install():
    code = """
import sys
sys.modules["sklearn"] = None
import lamina as lm
print(lm.sklearn.__all__)
try:
    lm.sklearn.MLPRegressor
except lm.errors.NotFound as error:
    print(error)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "'MLPRegressor'" in out and "scikit-learn, 1.6 or later, is not installed" in out and 'pip install "lamina[sklearn]"' in out
    with pytest.raises(AttributeError, match="no attribute of lamina.sklearn named 'MLPRegresor'(.|\n)*did you mean 'MLPRegressor'"):
        lm.sklearn.MLPRegresor
