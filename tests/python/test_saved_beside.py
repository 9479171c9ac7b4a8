"""Programs that are saved and loaded at the same time."""
import threading

import lamina as lm


def test_a_program_is_loaded_while_others_take_its_place(tmp_path):
    functions = [lm.function(lambda x, k=k: x + k, input_signature=[lm.TensorSpec([2])]) for k in (0.0, 1.0)]
    lm.save(functions[0], tmp_path / "program")
    stop, wrong = threading.Event(), []

    def load():
        while not stop.is_set():
            try:
                if lm.load(tmp_path / "program")(lm.zeros(2)).tolist() not in ([0, 0], [1, 1]):
                    wrong.append("other numbers")
            except Exception as error:
                wrong.append(error)

    readers = [threading.Thread(target=load) for _ in range(2)]
    for one in readers:
        one.start()
    for i in range(150):
        lm.save(functions[i % 2], tmp_path / "program")
    stop.set()
    for one in readers:
        one.join()
    assert not wrong
