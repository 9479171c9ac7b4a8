"""lm.fft beside numpy.fft: lengths, axes and norms; dtypes, gradients, traced functions, vmap and refusals."""
import itertools

import numpy as np
import pytest

import lamina as lm

RNG = np.random.default_rng(3)
REAL = RNG.normal(size=(3, 4, 6))
COMPLEX = REAL + 1j * RNG.normal(size=REAL.shape)
NORMS = ("backward", "ortho", "forward")


def close(ours, theirs, tolerance=1e-12):
    assert ours.shape == theirs.shape and ours.dtype.name == theirs.dtype.name, (ours, theirs)
    np.testing.assert_allclose(ours.numpy(), theirs, rtol=tolerance, atol=tolerance * max(1.0, np.abs(theirs).max(initial=0)))


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_along_an_axis(name):
    x = REAL if name in ("rfft", "ihfft") else COMPLEX
    for n, axis, norm in itertools.product((None, 1, 3, 5, 8), (-1, 0, 1), NORMS):
        close(getattr(lm.fft, name)(lm.constant(x), n, axis, norm), getattr(np.fft, name)(x, n, axis, norm))
    if name in ("fft", "ifft", "irfft", "hfft"):
        close(getattr(lm.fft, name)(lm.constant(REAL)), getattr(np.fft, name)(REAL))


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_along_several_axes(name):
    x = REAL if name == "rfftn" else COMPLEX
    for (s, axes), norm in itertools.product([(None, None), (None, (0, 2)), ((5, 3), (1, 0)), ((2, 3, 8), (0, 1, 2)), (None, (-1,))], NORMS):
        close(getattr(lm.fft, name)(lm.constant(x), s, axes, norm), getattr(np.fft, name)(x, s, axes, norm))


@pytest.mark.parametrize("name", ["fft2", "ifft2", "rfft2", "irfft2"])
def test_along_two_axes(name):
    x = REAL if name == "rfft2" else COMPLEX
    for s, axes in ((None, (-2, -1)), ((3, 8), (0, 2))):
        close(getattr(lm.fft, name)(lm.constant(x), s, axes), getattr(np.fft, name)(x, s, axes))
    close(getattr(lm.fft, name)(lm.constant(x)), getattr(np.fft, name)(x))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 16, 30, 97, 121, 1000, 1024])
def test_lengths_with_any_factors(n):
    x = RNG.normal(size=n) + 1j * RNG.normal(size=n)
    close(lm.fft.fft(lm.constant(x)), np.fft.fft(x))
    single = lm.fft.ifft(lm.fft.fft(lm.constant(x.astype("complex64"))))
    assert single.dtype == lm.complex64
    np.testing.assert_allclose(single.numpy(), x.astype("complex64"), rtol=1e-6, atol=1e-6)  # sums are taken in float64


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_frequencies_and_shifts(n):
    np.testing.assert_allclose(lm.fft.fftfreq(n, 0.5, "float64").numpy(), np.fft.fftfreq(n, 0.5))
    np.testing.assert_allclose(lm.fft.rfftfreq(n, 0.5, "float64").numpy(), np.fft.rfftfreq(n, 0.5))
    assert lm.fft.fftfreq(n).dtype == lm.float32
    x = np.arange(n * 3).reshape(n, 3)
    for axes in (None, 0, (0, 1)):
        assert (lm.fft.fftshift(lm.constant(x), axes).numpy() == np.fft.fftshift(x, axes)).all()
        assert (lm.fft.ifftshift(lm.constant(x), axes).numpy() == np.fft.ifftshift(x, axes)).all()


def test_dtypes():
    assert lm.fft.fft(lm.constant([1, 2, 3])).dtype == lm.complex64 and lm.fft.fft(lm.constant(REAL)).dtype == lm.complex128
    assert lm.fft.rfft(lm.constant(REAL.astype("float16"))).dtype == lm.complex64 and lm.fft.irfft(lm.constant(COMPLEX)).dtype == lm.float64


def test_gradients_are_those_of_differences():
    weights = RNG.normal(size=(4, 4))

    def loss(x):
        y = lm.fft.rfft(x, axis=0)
        shaped = lm.fft.irfft(y * lm.complex(lm.constant(weights[:3]), lm.constant(weights[1:])), axis=0)
        return lm.sum(lm.abs(y)) + lm.sum(shaped**3) + lm.sum(lm.square(lm.real(lm.fft.ifft(lm.fft.fftn(x) * (2 - 1j), 3))))

    x = RNG.normal(size=(4, 4))
    slope = lm.grad(loss)(lm.constant(x)).numpy()
    for i, j in itertools.product(range(4), range(4)):
        step = np.zeros_like(x)
        step[i, j] = 1e-6
        assert slope[i, j] == pytest.approx((loss(lm.constant(x + step)).item() - loss(lm.constant(x - step)).item()) / 2e-6, rel=1e-5, abs=1e-7)


def test_traced_and_under_vmap():
    def spectrum(x):
        return lm.abs(lm.fft.rfft(x))

    eager = spectrum(lm.constant(REAL))
    assert (lm.function(spectrum)(lm.constant(REAL)).numpy() == eager.numpy()).all()
    assert (lm.vmap(spectrum)(lm.constant(REAL)).numpy() == eager.numpy()).all()


def test_results_have_the_same_bits_for_any_number_of_threads():
    x = lm.constant(RNG.normal(size=(64, 1000)))
    before = lm.config.threads
    try:
        lm.config.threads = 1
        one = lm.fft.fft(x).numpy()
        lm.config.threads = 3
        assert (lm.fft.fft(x).numpy() == one).all()
    finally:
        lm.config.threads = before


def test_saved_programs_hold_it_and_c_files_refuse_it(tmp_path):
    module = lm.Module()
    module.call = lm.function(lambda x: lm.abs(lm.fft.rfft(x)), input_signature=[lm.TensorSpec([None, 6], "float64")])
    lm.save(module, tmp_path / "m")
    np.testing.assert_array_equal(lm.load(tmp_path / "m").call(lm.constant(REAL[0])).numpy(), module.call(lm.constant(REAL[0])).numpy())
    with pytest.raises(lm.errors.InvalidArgument, match="export_c: the program has fft"):
        lm.export_c(lm.function(lambda x: lm.abs(lm.fft.rfft(x))), tmp_path / "c", lm.constant(REAL[0]))


def test_refusals():
    x = lm.constant(COMPLEX)
    for call, kind in [(lambda: lm.fft.rfft(x), lm.errors.TypeMismatch), (lambda: lm.fft.fft(x, 0), lm.errors.InvalidArgument), (lambda: lm.fft.fft(x, axis=3), lm.errors.InvalidArgument),
                       (lambda: lm.fft.fft(x, norm="half"), lm.errors.InvalidArgument), (lambda: lm.fft.fftn(x, (2,), (0, 1)), lm.errors.InvalidArgument), (lambda: lm.fft.fft(lm.zeros([2, 0])), lm.errors.InvalidArgument),
                       (lambda: lm.fft.fft(lm.constant(1.0)), lm.errors.InvalidArgument)]:
        with pytest.raises(kind):
            call()
