"""The C interface of include/rubato/rubato.h, by ctypes."""

import ctypes
import os

API_VERSION = 1

OK = 0

BIND = 1
COMPUTE = 2
APPLY = 3
REPLACED = 4
STORE = 5
MERGE = 6
PUBLISH = 7
APPLY_BUFFER = 8
SETTLE = 9
SAVE = 10
END = 100

FINISHED = 0
LEFT = 1
STOPPED = 2

_i32, _i64, _u64, _size = ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64, ctypes.c_size_t
_text, _pointer = ctypes.c_char_p, ctypes.c_void_p


class Trait(ctypes.Structure):
    _fields_ = [("name", _text), ("value", _text)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("name", _text),
        ("type", _text),
        ("shape", ctypes.POINTER(_i64)),
        ("strides", ctypes.POINTER(_i64)),
        ("dimensions", _u64),
        ("unit", _i32),
        ("offset", _u64),
    ]


class GradientPart(ctypes.Structure):
    _fields_ = [("name", _text), ("floats", _u64)]


class Job(ctypes.Structure):
    _fields_ = [
        ("size", _size),
        ("name", _text),
        ("gradient_floats", _u64),
        ("unit_bytes", ctypes.POINTER(_u64)),
        ("units", _u64),
        ("private_bytes", _u64),
        ("initial_private", _pointer),
        ("seed", _u64),
        ("samples", _i64),
        ("batch", _i64),
        ("shuffle", _i32),
        ("logical_workers", _i32),
        ("epochs", _i64),
        ("steps", _i64),
        ("state_in_host_memory", _i32),
        ("gradients_in_host_memory", _i32),
        ("wants_replaced", _i32),
        ("warms_up_by_update", _i32),
        ("quiet", _i32),
        ("saves_model", _i32),
        ("traits", ctypes.POINTER(Trait)),
        ("trait_count", _u64),
        ("tensors", ctypes.POINTER(Tensor)),
        ("tensor_count", _u64),
        ("allows_nan", _i32),
        ("gradient_parts", ctypes.POINTER(GradientPart)),
        ("gradient_part_count", _u64),
    ]


class Task(ctypes.Structure):
    _fields_ = [
        ("size", _size),
        ("kind", _i32),
        ("end", _i32),
        ("unit_memory", ctypes.POINTER(_pointer)),
        ("unit", _u64),
        ("samples", ctypes.POINTER(_i64)),
        ("sample_count", _u64),
        ("weight", ctypes.c_double),
        ("random_seed", _u64),
        ("logical", _i32),
        ("logical_workers", _i32),
        ("before", _pointer),
        ("after", _pointer),
        ("loss", ctypes.POINTER(ctypes.c_double)),
        ("accumulate", _i32),
        ("step", _i64),
        ("epoch", _i64),
        ("steps_per_epoch", _i64),
        ("total_steps", _i64),
        ("rate_factor", ctypes.c_double),
        ("leads", _i32),
        ("workers", _i32),
        ("hosts_begin", _i32),
        ("hosts_end", _i32),
        ("gradient", _pointer),
        ("buffer", _i32),
        ("source", _i32),  # `from` is a word of the language
        ("scale", ctypes.c_float),
        ("update", ctypes.POINTER(ctypes.c_uint8)),
        ("path", _text),
        ("final_private", _pointer),
        ("audit", _i32),
    ]


class Share(ctypes.Structure):
    _fields_ = [
        ("size", _size),
        ("epoch", _i64),
        ("weight", ctypes.c_double),
        ("random_seed", _u64),
        ("sample_count", _u64),
    ]


def _load():
    path = os.environ.get("RUBATO_LIBRARY") or os.path.join(
        os.path.dirname(os.path.abspath(__file__)), "librubato.so"
    )
    if not os.path.exists(path):
        raise ImportError(
            f"rubato: {path} is missing; install the wheel or python3-rubato, or build it: make python"
        )
    # Local: nothing of it is visible to PyTorch, which brings libraries of its own.
    library = ctypes.CDLL(path, mode=os.RTLD_LOCAL | os.RTLD_NOW)
    library.rubato_api_version.restype = ctypes.c_int
    library.rubato_version.restype = _text
    library.rubato_last_error.restype = _text
    library.rubato_hello.restype = None
    library.rubato_open.restype = _pointer
    library.rubato_open.argtypes = [ctypes.POINTER(Job)]
    library.rubato_next.argtypes = [_pointer, ctypes.POINTER(Task)]
    library.rubato_fail.argtypes = [_pointer, _text]
    library.rubato_close.argtypes = [_pointer]
    library.rubato_report.argtypes = [_pointer, _text, ctypes.c_double]
    library.rubato_witness.argtypes = [_pointer, _text, ctypes.c_uint32, _text]
    library.rubato_get_share.argtypes = [
        _pointer,
        _i64,
        _i32,
        ctypes.POINTER(_i64),
        _u64,
        ctypes.POINTER(Share),
    ]
    if library.rubato_api_version() != API_VERSION:
        raise ImportError(
            f"rubato: {path} speaks version {library.rubato_api_version()} of the C interface, this "
            f"package version {API_VERSION}; install both from one release"
        )
    return library


library = _load()


def last_error():
    return library.rubato_last_error().decode(errors="replace")


def version():
    return library.rubato_version().decode()
