"""The engines that benchmarks/inference.py compares, each a function of (folder, size, batch, threads).

An engine is imported when it is asked for, and nothing else is: starts are measured with this file.
"""


def ours(folder, size, batch, threads):
    import adaste_runtime

    return adaste_runtime.load(f"{folder}/{size}.safetensors", threads=threads)


def ours_without_numpy(folder, size, batch, threads):
    network = ours(folder, size, batch, threads)
    outputs = memoryview(bytearray(4 * batch * network.outputs)).cast("f", (batch, network.outputs))

    def run(images):
        network.run(images, outputs)
        return outputs

    return run


def ours_int8(folder, size, batch, threads):
    import adaste_runtime
    import numpy as np

    network = adaste_runtime.load(f"{folder}/{size}.safetensors", threads=threads, int8=True)
    network.calibrate(np.load(f"{folder}/{size}.npy"))
    return network


def onnx_runtime(ending):
    def engine(folder, size, batch, threads):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        path = f"{folder}/{size}{ending}.onnx"
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return lambda images: session.run(None, {"input": images})[0]

    return engine


def open_vino(ending):
    def engine(folder, size, batch, threads):
        import openvino

        core = openvino.Core()
        model = core.read_model(f"{folder}/{size}{ending}.onnx")
        model.reshape([batch, 3, size, size])
        settings = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
        precise = {**settings, "INFERENCE_PRECISION_HINT": "f32"}
        request = core.compile_model(model, "CPU", precise).create_infer_request()
        return lambda images: request.infer([images])[0]

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
