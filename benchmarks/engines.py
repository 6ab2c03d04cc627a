"""The engines that benchmarks/inference.py compares, each a function of (folder, size, batch, threads).

An engine is imported when it is asked for, and nothing else is: starts are measured with this file.
"""

import os

LIBRARY = os.environ.get("ADASTE_RUNTIME_LIBRARY")
"""The C library, on machines where the Python package cannot be installed."""


class CNetwork:
    """A network through the C interface."""

    def __init__(self, path, threads, int8=False):
        import ctypes

        self._library, self._pointer, self._size = ctypes.CDLL(LIBRARY), ctypes.c_void_p, ctypes.c_size_t
        self._library.adaste_load_file.restype = ctypes.c_void_p
        self._library.adaste_last_error.restype = ctypes.c_char_p
        self._network = ctypes.c_void_p(self._library.adaste_load_file(path.encode(), threads, int(int8)))
        self._check(self._network.value)
        self._outputs = self._library.adaste_output_size(self._network)

    def _check(self, good):
        if not good:
            raise RuntimeError(self._library.adaste_last_error().decode())

    def calibrate(self, images):
        found = self._library.adaste_calibrate(
            self._network, self._pointer(images.ctypes.data), self._size(len(images))
        )
        self._check(found == 0)

    def __call__(self, images):
        import numpy as np

        outputs = np.empty((len(images), self._outputs), np.float32)
        pointers = self._pointer(images.ctypes.data), self._size(len(images)), self._pointer(outputs.ctypes.data)
        self._check(self._library.adaste_run(self._network, *pointers) == 0)
        return outputs


def loaded(path, threads, int8=False):
    if LIBRARY is not None:
        return CNetwork(path, threads, int8)
    import adaste_runtime

    return adaste_runtime.load(path, threads=threads, int8=int8)


def ours(folder, size, batch, threads):
    return loaded(f"{folder}/{size}.safetensors", threads)


def ours_without_numpy(folder, size, batch, threads):
    network = ours(folder, size, batch, threads)
    outputs = memoryview(bytearray(4 * batch * network.outputs)).cast("f", (batch, network.outputs))

    def run(images):
        network.run(images, outputs)
        return outputs

    return run


def ours_int8(folder, size, batch, threads):
    import numpy as np

    network = loaded(f"{folder}/{size}.safetensors", threads, int8=True)
    network.calibrate(np.load(f"{folder}/{size}.npy"))
    return network


def onnx_runtime(ending):
    def engine(folder, size, batch, threads):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        path = f"{folder}/{size}{ending}.onnx"
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        (only,) = session.get_inputs()
        return lambda images: session.run(None, {only.name: images})[0]

    return engine


def open_vino(ending):
    def engine(folder, size, batch, threads):
        import threading

        import openvino

        core = openvino.Core()
        model = core.read_model(f"{folder}/{size}{ending}.onnx")
        model.reshape([batch, 3, size, size])
        settings = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
        precise = {**settings, "INFERENCE_PRECISION_HINT": "f32"}
        compiled, own = core.compile_model(model, "CPU", precise), threading.local()

        def run(images):
            if not hasattr(own, "request"):  # one serves one caller
                own.request = compiled.create_infer_request()
            return own.request.infer([images])[0]

        return run

    return engine


def torch_eager(folder, size, batch, threads):
    import torch

    import adaste

    torch.set_num_threads(threads)
    network = adaste.load_packed(f"{folder}/{size}.safetensors").eval()

    def run(images):
        with torch.inference_mode():
            return network(torch.from_numpy(images)).numpy()

    return run


ENGINES = {
    "adaste": ours,
    "ONNX Runtime": onnx_runtime(""),
    "OpenVINO": open_vino(""),
    "torch": torch_eager,
    "adaste int8": ours_int8,
    "ONNX Runtime int8": onnx_runtime("-int8"),
    "OpenVINO int8": open_vino("-int8"),
}
FLOAT_PEERS, INT8_PEERS = ("ONNX Runtime", "OpenVINO"), ("ONNX Runtime int8", "OpenVINO int8")
