"""What affects the bits of a computation: set before it begins, and compared between workers."""

import ctypes
import os
import platform
import sys

# As src/elastic/worker/pinned_environment.cpp.
_PINNED = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
}
_D1 = {**_PINNED, "MKL_CBWR": "AUTO"}
_D2 = {
    **_PINNED,
    "MKL_CBWR": "COMPATIBLE",
    "ATEN_CPU_CAPABILITY": "default",
    "DNNL_MAX_CPU_ISA": "SSE41",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "OPENBLAS_CORETYPE": "Nehalem",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-AVX2_Usable,-FMA,-FMA_Usable,-FMA4,-FMA4_Usable",
}
_MARK = "RUBATO_ENVIRONMENT_PINNED"


def pin_variables():
    if os.environ.get("RUBATO_CONSISTENCY") != "d2":
        os.environ.update(_D1)
        os.environ.pop(_MARK, None)
        return
    wrong = [name for name, value in _D2.items() if os.environ.get(name) != value]
    if not wrong:
        os.environ.pop(_MARK, None)
        return
    if os.environ.get(_MARK) == "d2":
        raise RuntimeError(f"rubato: {wrong[0]} changed while Python restarted itself")
    # The C library reads its variables when a process starts.
    os.environ.update(_D2)
    os.environ[_MARK] = "d2"
    with open("/proc/self/cmdline", "rb") as file:
        arguments = file.read().split(b"\0")[:-1]
    os.execv(sys.executable, arguments)


def pin_torch():
    import torch

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    blas = _openblas()
    if blas is not None:
        blas.openblas_set_num_threads(1)


def _openblas():
    try:
        library = ctypes.CDLL(None)
        library.openblas_get_num_threads
        return library
    except AttributeError:
        return None


def _kernels(torch, device):
    """A hash of what some kernels compute here."""
    import hashlib

    def ramp(shape, factor):
        count = 1
        for size in shape:
            count *= size
        ints = torch.arange(count, dtype=torch.int64) * 7919 % 1009
        return (ints.to(torch.float32) * factor - 1).view(shape).to(device)

    digest = hashlib.sha256()
    with torch.no_grad():
        a = ramp((37, 129), 0.001953125)
        for result in (
            a.matmul(ramp((129, 53), 0.00390625)),
            torch.nn.functional.conv2d(
                ramp((2, 5, 17, 13), 0.001953125), ramp((7, 5, 3, 3), 0.00390625)
            ),
            a.softmax(1),
            a.sum(0),
            torch.nn.functional.gelu(a),
        ):
            raw = result.cpu().contiguous().view(-1).view(torch.uint8)
            digest.update(bytes(raw.tolist()))
    return digest.hexdigest()[:16]


def traits(device):
    import torch

    found = {
        "cublas workspace": os.environ.get("CUBLAS_WORKSPACE_CONFIG", "unset"),
        "deterministic": "yes" if torch.are_deterministic_algorithms_enabled() else "no",
        "device": device.type,
        "gpu": "none",
        "kernels": _kernels(torch, device),
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "threads": str(torch.get_num_threads()),
        "torch": torch.__version__,
    }
    if hasattr(torch.backends, "cpu") and hasattr(torch.backends.cpu, "get_cpu_capability"):
        found["aten"] = torch.backends.cpu.get_cpu_capability()
    blas = _openblas()
    if blas is not None:
        blas.openblas_get_config.restype = ctypes.c_char_p
        found["blas"] = blas.openblas_get_config().decode(errors="replace")
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        found["numpy"] = numpy.__version__
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        found["gpu"] = f"{properties.name} {properties.major}.{properties.minor}"
        found["cuda"] = str(torch.version.cuda)
        found["cudnn"] = str(torch.backends.cudnn.version())
    return found
