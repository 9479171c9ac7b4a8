"""One float32 matrix product [n,n] x [n,n], by Lamina or by NumPy's BLAS (OpenBLAS). usage: matmul_worker.py THREADS lamina|numpy"""
import os
import sys

import worker

threads, side = int(sys.argv[1]), sys.argv[2]
worker.pin(threads)
os.environ["LAMINA_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(threads)
import numpy as np  # noqa: E402  after the environment that it reads

draw = np.random.default_rng(0)
if side == "lamina":
    import lamina as lm
    name = f"Lamina {lm.__version__}"

    def multiply(n):
        product = lm.function(lambda a, b: a @ b)
        a, b = (lm.constant(draw.random((n, n), "float32")) for _ in range(2))

        def run(calls):
            for _ in range(calls):
                product(a, b)
            lm.synchronize()
        return run
else:
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    name = f"NumPy {np.__version__} with {blas['name']} {blas['version']}"

    def multiply(n):
        a, b = (draw.random((n, n), "float32") for _ in range(2))
        out = np.empty_like(a)

        def run(calls):
            for _ in range(calls):
                np.matmul(a, b, out=out)
        return run

worker.serve({"name": name, "threads": threads}, {f"matmul_{n}": multiply(n) for n in worker.MATMULS})
