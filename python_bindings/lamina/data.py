"""Data: reading files and feeding batches."""
from __future__ import annotations

import atexit
import itertools
import numbers
import operator
import os
import weakref

from . import _border, _core, _elsewhere, _habits, errors
from ._structure import Structure, flatten, is_container, is_data, unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["AUTOTUNE", "Dataset", "host_map", "random_split", "read_csv", "read_idx", "read_npy"]

AUTOTUNE = _core.data.AUTOTUNE  # threads: one per core; prefetch: as many elements as it takes
_EVERY = 2**62  # more elements than any pass has


def read_idx(path: str | os.PathLike[str]) -> Any:
    """The array in an IDX file (the format of MNIST), plain or gzipped, as a NumPy array of the file's shape and dtype.

    Raises lm.errors.BadFile for a file that is damaged, cut short or something else, and for one that cannot be opened.
    """
    return _core.data.read_idx(errors.path_of("read_idx", path))


def read_npy(path):
    """The array in an NPY file of NumPy's. Raises lm.errors.BadFile for other files, and for arrays of Python objects, whose reading would run code."""
    import numpy as np

    path = errors.path_of("read_npy", path)
    with _reading(path, "an NPY file of numbers"):
        array = np.load(path, allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise ValueError("it holds several arrays (NPZ)")
        return array


def read_csv(path, delimiter: str = ",", dtype="float32"):
    """(names, rows) of a text file of numbers: the names in its first line, and an array [rows, columns]. An empty field of a floating dtype is NaN.

    Raises lm.errors.BadFile for fields that are no numbers, with the line, and for lines of another length. pandas reads what has texts in it.
    """
    import numpy as np

    if len(delimiter) != 1:
        raise errors.InvalidArgument(f"read_csv: delimiter {errors.shown(delimiter)}", why="it is the character between the fields of a line", fix='pass ","')
    path = errors.path_of("read_csv", path)

    def fields(lines):
        return np.loadtxt(lines, dtype=str, delimiter=delimiter, ndmin=2, comments=None, quotechar='"')

    with _reading(path, "a CSV file of numbers"):
        with open(path, newline="", encoding="utf-8-sig") as file:
            head = file.readline()
            names = [name.strip().strip('"') for name in fields([head])[0].tolist()] if head.strip() else [""]
            first = next((line for line in file if line.strip()), None)
            rows = np.empty((0, len(names)), str) if first is None else fields(itertools.chain([first], file))
        if rows.shape[1] != len(names):
            raise ValueError(f"line 1 names {len(names)} columns, the next lines have {rows.shape[1]}")
        kind = _core.dtype(dtype).dtype
        if kind.kind == "f":
            rows = np.where(np.char.strip(rows) == "", "nan", rows)
        return names, _numbers(rows, kind)


def _numbers(rows, dtype):
    try:
        return rows.astype(dtype)
    except ValueError:
        for line, row in enumerate(rows, 2):
            for column, field in enumerate(row, 1):
                try:
                    field.astype(dtype)
                except ValueError:
                    raise ValueError(f"line {line}, column {column} is {errors.shown(str(field))}, which is no {dtype.name}") from None
        raise


class _reading:
    """Reports what goes wrong with a file as lm.errors.BadFile."""

    def __init__(self, path, kind):
        self.path, self.kind = path, kind

    def __enter__(self):
        return self

    def __exit__(self, _, error, traceback):
        # NumPy raises what its parsers do: of a damaged header, tokenize.TokenError.
        if isinstance(error, Exception) and not isinstance(error, (errors.Error, MemoryError)):
            why = getattr(error, "strerror", None) or str(error).partition("\n")[0] or type(error).__name__
            raise errors.BadFile(f"the file cannot be read as {self.kind}", where=f"file '{self.path}'", why=why, fix="check the path and what is in the file") from None


class _Form:
    """How the tensors of an element are nested, and the shape and dtype of each where these are known before the first element."""

    def __init__(self, structure=None, specs=None, parts=()):
        self._structure, self.specs, self._parts = structure, specs, parts
        self.same = []  # other forms: the first that is known decides

    @property
    def structure(self):
        """None before the first element of a map or a generator."""
        if self._structure is None and self.same:
            self._structure = next((form.structure for form in self.same if form.structure is not None), None)
        if self._structure is None and self._parts:
            children = tuple(part.structure for part in self._parts)
            if None not in children:
                self._structure = Structure(tuple, (), children)
        return self._structure

    def nested(self, tensors):
        structure = self.structure
        if structure.is_leaf:
            return tensors[0]
        if structure.kind is tuple and all(child.is_leaf for child in structure.children):
            return tuple(tensors)
        return unflatten(structure, tensors)

    def flat(self, value, dtypes=None) -> list:
        """The tensors of a value that Python code has made. The first one decides the structure."""
        leaves, structure = flatten(value, is_leaf=_is_leaf)
        if self._structure is None:
            self._structure = structure
            if structure.kind is list:  # a loader's
                self._structure = Structure(tuple, (), structure.children)
        elif not _alike(structure, self._structure):
            raise errors.InvalidArgument("Dataset: the elements differ in structure", why="one is nested in another way than the first", fix="return the same tuple or dict every time")
        if dtypes is None:
            return [_tensor(leaf) for leaf in leaves]
        wanted, of_dtypes = flatten(dtypes)
        if not _alike(structure, of_dtypes):
            raise errors.InvalidArgument(f"host_map: {len(wanted)} dtypes for {len(leaves)} values", why="each value has its dtype, nested as the values are", fix="pass them as the function returns them")
        return [_core.astype(_tensor(leaf), dtype) for leaf, dtype in zip(leaves, wanted)]


def _is_leaf(value) -> bool:
    if isinstance(value, list):  # of numbers; or of a loader's tensors
        return not any(hasattr(part, "shape") or isinstance(part, (tuple, dict)) for part in value)
    return not is_container(value)


def _alike(a, b) -> bool:
    return a.is_leaf == b.is_leaf and (a.kind is dict) == (b.kind is dict) and a.keys == b.keys and len(a.children) == len(b.children) and all(map(_alike, a.children, b.children))


def _tensor(value):
    if hasattr(value, "__array__") and not isinstance(value, (_core.Tensor, _core.Variable)):
        import numpy as np

        value = np.asarray(value)
    return _core.constant(value)


def _on_host(tensor):
    array = tensor.numpy()
    return array[()] if array.ndim == 0 else array


def _function(step, name, function):
    if not callable(function):
        raise errors.TypeMismatch(f"{step}: {name} is {errors.a_type(function)}", why="it is called with each element", fix="pass a function")


def _called(function, element):
    return function(*element) if type(element) is tuple else function(element)


class _Numbered:
    """Adds an item's number to what is raised in its turn."""

    def __init__(self, step, item):
        self.step, self.item = step, item

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if isinstance(error, errors.Error):
            where = f"item {self.item} of {self.step}" + (f", {error.where}" if error.where else "")
            raise kind(error.what, where, error.why, error.fix).with_traceback(traceback) from error.__cause__
        if isinstance(error, Exception) and not isinstance(error, StopIteration):
            error.__notes__ = [*getattr(error, "__notes__", ()), f"in item {self.item} of {self.step}"]


class Dataset:
    """Elements one after another, each a tensor or a tuple or dict of tensors; every loop over it starts again.

        feed = Dataset.from_tensor_slices((x, y)).shuffle().batch(32)
        feed = Dataset.from_tensor_slices((paths, y)).host_map(load, parallel=8).batch(32).prefetch()

    A Dataset is made by from_tensor_slices, range, from_generator, from_csv, from_pandas, from_images or zip. Its methods return new ones. The order of elements is
    the same with any number of threads.
    """

    def __init__(self, core, form=None):
        if type(core) is not _core.data.Dataset:
            raise errors.TypeMismatch(f"Dataset: {errors.a_type(core)} is no source of rows", why="a Dataset is made of arrays", fix="call lm.data.Dataset.from_tensor_slices")
        self._core, self._form = core, form or _Form(Structure())
        self._passes = 0  # how many were begun
        self._loops = weakref.WeakSet()  # those that have begun and not ended
        self._last = (0, None)  # the place of the one that was read last: its number, and how many elements it took; None after its end
        self._resumed = None  # the position at which the next loop goes on
        self._left = {}  # if they are read through: the places of those that have not ended, by number
        self._read_through = False  # whether what a later pass gives follows from the whole of the passes before

    # --- where elements come from ---

    @classmethod
    def from_tensor_slices(cls, tensors) -> Dataset:
        """One element per row of the first axis. `tensors` is an array, a tensor, nested lists of numbers, or a tuple or dict of such
        (nested arbitrarily), all with the same number of rows; elements have the same structure. Raises InvalidArgument when the
        numbers of rows differ.
        """
        leaves, structure = flatten(tensors, is_leaf=is_data)
        leaves = [_core.constant(leaf) for leaf in leaves]
        return cls(_core.data.Dataset.from_tensor_slices(leaves), _Form(structure, [(tuple(leaf.shape)[1:], leaf.dtype) for leaf in leaves]))

    @classmethod
    def range(cls, n: int) -> Dataset:
        """0, ..., n - 1 as int64 scalars."""
        return cls(_core.data.Dataset.range(n), _Form(Structure(), [((), _core.int64)]))

    @classmethod
    def from_generator(cls, source, size: int | None = None) -> Dataset:
        """What Python makes one by one. `source` is a function that returns an iterator, or anything that can be iterated many times, such as PyTorch's
        DataLoader; every loop asks for a new iterator. Elements are arrays, numbers, PyTorch's tensors, or tuples or dicts of them. size: how many there are;
        by default len(source), if it has one.
        """
        if not callable(source) and not hasattr(source, "__iter__"):
            raise errors.TypeMismatch(f"Dataset: {errors.a_type(source)} gives no elements", why="it is neither a function nor iterable", fix="pass a function with yield in it")
        if hasattr(source, "__next__"):
            raise errors.InvalidArgument("Dataset: source is an iterator, which can be read only once", why="every loop over a Dataset starts again", fix="pass the function that makes it: from_generator(lambda: ...)")
        form = _Form()

        def start():
            with _Numbered("the generator", 0):
                iterator = iter(source() if callable(source) and not hasattr(source, "__iter__") else source)
            item = 0
            while True:
                with _Numbered("the generator", item):
                    try:
                        value = next(iterator)
                    except StopIteration:
                        return
                    element = form.flat(value)
                yield element
                item += 1

        if size is not None:
            errors.in_range("from_generator", "it is a number of elements", 0, size=size)
        elif hasattr(source, "__len__"):
            size = len(source)
        return cls(_core.data.Dataset.from_generator(start, size), form)

    @classmethod
    def from_csv(cls, path, label: str | None = None, delimiter: str = ",") -> Dataset:
        """The rows of a file that read_csv() reads, as float32: the columns in order; with `label`, (the other columns, that column)."""
        names, rows = read_csv(path, delimiter)
        if label is None:
            return cls.from_tensor_slices(rows)
        at = cls._find(names, label)
        return cls.from_tensor_slices((rows[:, [i for i in range(len(names)) if i != at]], rows[:, at]))

    @classmethod
    def from_pandas(cls, frame, label: str | None = None) -> Dataset:
        """The rows of a DataFrame of numbers, as float32: the columns in order; with `label`, (the other columns, that column in its own dtype). Other forms:
        from_tensor_slices(dict(frame)) for elements with the columns by name."""
        names, columns = [str(name) for name in frame.columns], []
        for i, name in enumerate(names):
            if name == label:
                continue
            try:
                columns.append(frame.iloc[:, i].to_numpy(dtype="float32"))
            except (ValueError, TypeError):
                raise errors.TypeMismatch(f"Dataset: column '{name}' has dtype {frame.dtypes.iloc[i]}", why="rows are numbers", fix="turn it into numbers, or drop the column") from None
        if not columns:
            raise errors.InvalidArgument("Dataset: the DataFrame has no columns of inputs", fix="pass one with numbers beside the label")
        import numpy as np

        rows = np.stack(columns, axis=1)
        return cls.from_tensor_slices(rows if label is None else (rows, frame.iloc[:, cls._find(names, label)].to_numpy()))

    @staticmethod
    def _find(names, label):
        if label not in names:
            raise _core.unknown_name("column", str(label), names)
        return names.index(label)

    @classmethod
    def from_images(cls, folder, size=None, parallel: int = AUTOTUNE) -> Dataset:
        """(image, label) of each picture in a folder with one folder per class, by name. image: uint8 [height, width, channels], with `size` (height, width) scaled
        to it; label: int64, the number of the class among the names in order. Threads decode with Pillow. class_names has the names."""
        try:
            from PIL import Image
        except ImportError:
            raise errors.StateError("Dataset.from_images: Pillow is not installed", why="it decodes the pictures", fix="pip install pillow") from None
        import numpy as np

        folder = errors.path_of("Dataset.from_images", folder, "folder")
        with _reading(folder, "a folder of classes"):
            names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
            paths, labels = [], []
            for number, name in enumerate(names):
                found = sorted(entry.path for entry in os.scandir(os.path.join(folder, name)) if os.path.splitext(entry.name)[1].lower() in Image.registered_extensions())
                paths += found
                labels += [number] * len(found)
        if not paths:
            raise errors.BadFile("Dataset.from_images: there is no picture", where=f"file '{folder}'", why="pictures are in one folder per class", fix="pass the folder that holds the classes' folders")
        labels = np.asarray(labels, "int64")

        def load(i):
            with _reading(paths[i], "a picture"), Image.open(paths[i]) as picture:
                picture = picture if picture.mode in ("L", "RGB", "RGBA") else picture.convert("RGB")
                array = np.asarray(picture if size is None else picture.resize((size[1], size[0]), Image.Resampling.BILINEAR))
            return array[:, :, None] if array.ndim == 2 else array, labels[i]

        made = cls.range(len(paths)).host_map(load, parallel=parallel)
        made.class_names = names
        return made

    @classmethod
    def zip(cls, *datasets) -> Dataset:
        """One element of each side by side, as a tuple, up to the end of the shortest."""
        if len(datasets) == 1 and isinstance(datasets[0], (tuple, list)):
            datasets = tuple(datasets[0])
        for one in datasets:
            _a_dataset("zip", one)
        forms = [one._form for one in datasets]
        specs = [spec for form in forms for spec in form.specs] if all(form.specs is not None for form in forms) else None
        made = cls(_core.data.Dataset.zip([one._core for one in datasets]), _Form(specs=specs, parts=forms))
        made._read_through = any(one._read_through for one in datasets)
        return made

    # --- which elements, in which order ---

    def shuffle(self, buffer_size: int | None = None, seed: int | None = None) -> Dataset:
        """The elements in random order, different in each loop: each is drawn from the next buffer_size elements, by default from all. All
        orders follow from the seed, by default lm.random.set_seed's. Shuffle before batch() to mix rows, after it to mix whole batches."""
        if buffer_size is None and self._core.size is None:
            raise errors.TypeMismatch(f"shuffle: the Dataset {'never ends' if self._core.endless else 'does not say how many elements it has'}", why="without a buffer_size all its elements are held at once",
                                      fix="pass a buffer_size: shuffle(1000)")
        window = max(len(self), 1) if buffer_size is None else _count("buffer_size", buffer_size)
        return self._with(self._core.shuffle(window, _bits(seed)))

    def repeat(self, count: int | None = None) -> Dataset:
        """Several loops in one; without a number it never ends."""
        made = self._with(self._core.repeat(None if count is None else _count("count", count)))
        made._read_through = True  # the passes inside of it begin as it goes
        return made

    def take(self, count: int) -> Dataset:
        """The first `count` elements."""
        return self._with(self._core.take(_count("count", count, 0)))

    def skip(self, count: int) -> Dataset:
        """All but the first `count` elements. They are not read where that is possible, and a map before it is not called for them."""
        return self._with(self._core.skip(_count("count", count, 0)))

    def filter(self, predicate) -> Dataset:
        """The elements for which predicate(*element) is true; a dict or a tensor is its one argument."""
        _function("filter", "predicate", predicate)
        form = self._form

        def keep(tensors, item):
            with _Numbered("filter", item):
                return bool(_called(predicate, form.nested(tensors)))

        return self._with(self._core.filter(keep))

    def interleave(self, function, cycle_length: int = 4, block_length: int = 1) -> Dataset:
        """The elements of the Datasets that function(*element) returns: cycle_length of them are read in turns, block_length elements at a time. One that ends gives its
        turn to the next."""
        _function("interleave", "function", function)
        form, inner = self._form, _Form()

        def make(tensors, item):
            with _Numbered("interleave", item):
                made = _called(function, form.nested(tensors))
                _a_dataset("interleave", made)
                if inner.structure is None:
                    inner.same.append(made._form)
                return made._core

        made = Dataset(self._core.interleave(make, _count("cycle_length", cycle_length), _count("block_length", block_length)), inner)
        made._read_through = self._read_through
        return made

    def random_split(self, parts, seed: int | None = None) -> list:
        """Datasets of these lengths, or shares of the whole: each element is in one of them, chosen at random by the seed, and they keep their order.
        Shuffle the parts, and not what is split: InvalidArgument."""
        total, parts = len(self), list(parts)
        whole = all(map(errors.is_whole, parts))
        if parts and not whole and all(isinstance(part, numbers.Real) and not isinstance(part, numbers.Integral) for part in parts) and abs(sum(parts) - 1) < 1e-6 and min(parts) >= 0:
            ends = [round(total * sum(parts[:i + 1])) for i in range(len(parts))]
            parts = [end - begin for begin, end in zip([0, *ends], ends)]
        elif not whole:
            raise errors.InvalidArgument(f"random_split: {errors.shown(parts)} are no parts", why="they are lengths, or shares that add up to 1", fix="pass [0.8, 0.2]")
        return [self._with(core) for core in self._core.random_split(list(map(operator.index, parts)), _bits(seed))]

    # --- what they are ---

    def batch(self, batch_size: int, drop_remainder: bool = False) -> Dataset:
        """Joins `batch_size` elements along a new first axis; the last batch may be smaller unless it is dropped. Elements have equal shapes."""
        return self._batched(self._core.batch(_count("batch_size", batch_size), drop_remainder), lambda shape: shape)

    def padded_batch(self, batch_size: int, value: float = 0, drop_remainder: bool = False) -> Dataset:
        """The same for elements of different lengths: each axis of a batch is as long as its longest element, and `value` fills the rest."""
        return self._batched(self._core.padded_batch(_count("batch_size", batch_size), value, drop_remainder), lambda shape: [None] * len(shape))

    def _batched(self, core, shape_within):
        made = self._with(core)
        if self._form.specs is not None:
            made._form = _Form(self._form._structure, [((None, *shape_within(shape)), dtype) for shape, dtype in self._form.specs], self._form._parts)
        return made

    def map(self, function, parallel: int = 1) -> Dataset:
        """function(*element) of each element, which is traced like any lm.function. parallel: by how many threads at once; AUTOTUNE is one per core. What it draws
        follows from lm.random's seed, the loop and the element alone."""
        traced = function if isinstance(function, _core.Function) else _core.function(function)
        return self._mapped("map", lambda element: _called(traced, element), None, parallel)

    def host_map(self, function, dtypes=None, parallel: int = 1) -> Dataset:
        """function(*element) of each element in plain Python, on NumPy arrays and scalars: to read files, to decode, to call other libraries. It returns arrays or numbers, or
        a tuple or dict of them; dtypes, nested in the same way, convert them. parallel: by how many threads at once (AUTOTUNE: one per core), so that waiting for
        files and code that releases the GIL overlap. An exception is raised where the loop asks for that element, with its number."""
        _function("host_map", "function", function)

        def call(element):
            leaves, structure = flatten(element)
            return _called(function, unflatten(structure, [_on_host(leaf) for leaf in leaves]))

        return self._mapped("host_map", call, dtypes, parallel)

    def _mapped(self, step, function, dtypes, parallel):
        before, form = self._form, _Form()

        def run(tensors, item):
            with _Numbered(step, item):
                return form.flat(function(before.nested(tensors)), dtypes)

        made = Dataset(self._core.map(run, parallel if parallel == AUTOTUNE else _count("parallel", parallel)), form)
        made._read_through = self._read_through
        return made

    # --- when they are read ---

    def cache(self) -> Dataset:
        """Keeps the elements of the first loop that reaches the end in memory; later loops read them there."""
        made = self._with(self._core.cache())
        made._read_through = True  # the first pass is what is kept
        return made

    def prefetch(self, buffer_size: int = AUTOTUNE) -> Dataset:
        """A thread reads up to buffer_size elements ahead while the loop works on one. AUTOTUNE: more whenever the loop had to wait, within 256 MiB."""
        return self._with(self._core.prefetch(buffer_size if buffer_size == AUTOTUNE else _count("buffer_size", buffer_size)))

    def _with(self, core) -> Dataset:
        made = Dataset(core, self._form)
        made._read_through = self._read_through
        return made

    def __len__(self) -> int:
        size = self._core.size
        if size is None and self._core.endless:
            raise errors.TypeMismatch("a Dataset that repeats for ever has no length", why="repeat() without a count never ends", fix="pass repeat() a count, or take() as many elements as you need")
        if size is None:
            raise errors.TypeMismatch("the length of this Dataset is not known", why="a generator or a filter decides it", fix="pass from_generator's size, or count the elements in a loop")
        return size

    def __iter__(self):
        return _Loop(self)

    def _position(self) -> list:
        """Where the loop is that has begun and not ended, for _go_to(): [how many have begun, elements taken of it, its number unless it is the last, how far others were read
        that were left before their end]. Without one: of the one that was read last, or where the next one will be after its end."""
        if self._resumed:
            return self._resumed
        places = [loop.place for loop in self._loops]
        if len(places) > 1:
            raise errors.StateError(f"Checkpoint: {len(places)} loops over the Dataset have begun and not ended", why="the position is that of one",
                                    fix="let the others end or delete their iterators, or make a Dataset of its own for them")
        number, taken = places[0] if places else self._last
        inside = taken is not None and number < self._passes
        if inside and self._read_through:
            raise errors.StateError("Checkpoint: a loop over a Dataset with repeat() or cache() has begun inside of another", why="how far each was when the other went on is not saved",
                                    fix="make a Dataset of its own for it")
        left = [[other, place[1]] for other, place in self._left.items() if other != number]
        return [self._passes, taken, *([number if inside else None] if inside or left else []), *([left] if left else [])]

    def _go_to(self, *position) -> None:
        """The next loop goes on where that of a Dataset that was made in the same way was at _position()."""
        if self._passes >= self._next_number(*position):
            raise errors.InvalidArgument("Checkpoint: the Dataset was looped over before", why="the orders of its loops follow one another",
                                         fix="restore before the first loop, with a Dataset made as in the run that was saved")
        self._resumed = list(position)

    @staticmethod
    def _next_number(passes, taken, number=None, left=()):
        return passes + 1 if taken is None else number or passes

    def _begin(self):
        """The place and the elements of a loop that begins."""
        position, self._resumed = self._resumed or [self._passes, None], None
        passes, taken, own, left = position[0], position[1], self._next_number(*position), dict(position[3]) if len(position) > 3 else {}
        while self._passes < max(passes, own):
            self._passes += 1
            begun = iter(self._core)  # a shuffle counts them
            if self._passes == own:
                elements = begun
            elif self._read_through:
                done = begun.skip(left.get(self._passes, _EVERY))
                if self._passes in left:
                    self._left[self._passes] = [self._passes, done]
        place = [own, elements.skip(taken) if taken else 0]
        if self._read_through:
            self._left[own] = place
        return place, elements

    def __repr__(self) -> str:
        return f"<lm.data.Dataset of {'endless' if self._core.endless else 'unknown' if self._core.size is None else self._core.size} elements>"


class _Loop:
    """A loop over a Dataset, which begins with its first element. It goes on after an element that raises."""

    def __init__(self, dataset):
        self._dataset, self._elements = dataset, None

    def __iter__(self):
        return self

    def begin(self):
        self.place, self._elements = self._dataset._begin()
        self._dataset._loops.add(self)

    def __next__(self):
        data = self._dataset
        if self._elements is None:
            self.begin()
        data._last = self.place
        try:
            tensors = next(self._elements)
        except StopIteration:
            self._elements, self.place[1] = iter(()), None
            data._loops.discard(self)
            data._left.pop(self.place[0], None)
            raise
        except Exception:
            self.place[1] += 1
            raise
        self.place[1] += 1
        return data._form.nested(tensors)


def host_map(dataset: Dataset, function, dtypes=None, parallel: int = 1) -> Dataset:
    """dataset.host_map(function, dtypes, parallel)."""
    _a_dataset("host_map", dataset)
    return dataset.host_map(function, dtypes, parallel)


def random_split(dataset: Dataset, parts, seed: int | None = None) -> list:
    """dataset.random_split(parts, seed)."""
    _a_dataset("random_split", dataset)
    return dataset.random_split(parts, seed)


def _a_dataset(what, value):
    if not isinstance(value, Dataset):
        raise errors.TypeMismatch(f"{what}: {errors.a_type(value)} is no Dataset", fix="make one by lm.data.Dataset.from_tensor_slices or from_generator")


def _count(name, value, least=1):
    errors.in_range("Dataset", "it is a number of elements" if name != "parallel" else "it is a number of threads", least, **{name: value})
    return operator.index(value)


def _bits(seed):
    return None if seed is None else operator.index(seed) % 2**64


# Threads that still run the user's code when this time is over are left to the end of the process.
atexit.register(_core.data._end_threads, 5000)
_habits.hints(Dataset, "Dataset", _habits.DATASET)
if not TYPE_CHECKING:  # type checkers would take any name for one that there is
    __getattr__, __dir__ = _elsewhere.names_of("lm.data", __all__)
_border.guard(globals())
