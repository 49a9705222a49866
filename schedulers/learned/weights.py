"""A network's weights as bytes: the safetensors format (a JSON header, then raw numbers), read without a pickle."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

import msgspec
import numpy as np

from schedulers.core.errors import InvalidWeights
from schedulers.learned.graph import CLASS_FEATURES, JOB_FEATURES, NODE_FEATURES, Floats

#: Goes up whenever weights of before mean something else: features, their scales, or how the parts are joined.
VERSION: Final = 1
#: A header longer than this is none.
_HEADER: Final = 1 << 20


class Architecture(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes of a network of Decima's kind (SIGCOMM'19, section 5.1 and appendix).

    embedding: how wide what is said of a stage, a job and all jobs is. hidden: layers of the transforms; heads: of the
    two that score. summaries: whether sums over stages and over jobs are transformed again, as in the paper; the
    released code does without. own: whether messages between stages are made of what is the stages' own, without
    `job_executors`, so that they stay the same whatever executors their job is given. classes: whether executor classes
    are scored, as limits are; else a stage has the smallest with room (Decima, section 7.3).
    """

    embedding: int
    hidden: tuple[int, ...]
    heads: tuple[int, ...]
    summaries: bool = True
    own: bool = False
    classes: bool = False

    @property
    def passed(self) -> tuple[int, ...]:
        """The features that messages are made of."""
        return tuple(i for i, feature in enumerate(NODE_FEATURES) if not self.own or feature != "job_executors")

    def widths(self) -> dict[str, tuple[int, ...]]:
        """By part of the network the widths of its layers, input first.

        `message` and `node` are the paper's f and g for stages, `row` and `job` for jobs, `term` and `world` for all.
        """
        nodes, jobs, wide = len(NODE_FEATURES), len(JOB_FEATURES), self.embedding
        inner = (wide, *self.hidden, wide)
        parts = {
            "prepare": (len(self.passed), *self.hidden, wide),
            "message": inner,
            "node": inner,
            "row": (nodes + wide, *self.hidden, wide),
            "job": inner,
            "term": inner,
            "world": inner,
            "stage": (nodes + 3 * wide + jobs, *self.heads, 1),
            "limit": (2 * wide + jobs + 1, *self.heads, 1),
        }
        if not self.summaries:
            del parts["job"], parts["world"]
        if self.classes:
            parts["class"] = (2 * wide + jobs + len(CLASS_FEATURES), *self.heads, 1)
        return parts

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """By name of an array its shape: weights [inputs, outputs] and biases [outputs] of each layer."""
        shapes: dict[str, tuple[int, ...]] = {}
        for part, widths in self.widths().items():
            for layer, (inputs, outputs) in enumerate(pairwise(widths)):
                shapes[f"{part}.{layer}.weight"] = (inputs, outputs)
                shapes[f"{part}.{layer}.bias"] = (outputs,)
        return shapes

    @property
    def parameters(self) -> int:
        """How many numbers it has."""
        return sum(math.prod(shape) for shape in self.shapes().values())


#: By name. With an embedding of 14 the first has 12,724 parameters; the paper, whose features are others, says 12,736.
ARCHITECTURES: Final[Mapping[str, Architecture]] = {
    "decima": Architecture(embedding=14, hidden=(32, 16), heads=(32, 16), own=True),
    "released": Architecture(embedding=8, hidden=(16, 8), heads=(32, 16, 8), summaries=False),
    "classes": Architecture(embedding=14, hidden=(32, 16), heads=(32, 16), own=True, classes=True),
}
#: Parts that end in a score.
SCORING: Final = ("stage", "limit", "class")


class Weights(msgspec.Struct, frozen=True, eq=False):
    """A network as plain arrays. arrays: as `Architecture.shapes`, float32. about: what trained it, for people."""

    architecture: Architecture
    arrays: Mapping[str, Floats]
    about: Mapping[str, str] = {}


class _Entry(msgspec.Struct, frozen=True):
    """What the header says of an array."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def initial(architecture: Architecture, generator: np.random.Generator) -> Weights:
    """Weights before training: Glorot's, zero biases, and scores so small that all choices are about equally likely."""
    arrays = {}
    last = {f"{part}.{len(architecture.heads)}.weight" for part in SCORING}
    for name, shape in architecture.shapes().items():
        bound = math.sqrt(6 / sum(shape)) if len(shape) == 2 else 0.0
        drawn = generator.uniform(-bound, bound, shape) * (0.01 if name in last else 1.0)
        arrays[name] = drawn.astype(np.float32)
    return Weights(architecture, arrays)


def pack(weights: Weights) -> bytes:
    """The file."""
    entries: dict[str, Any] = {
        "__metadata__": {
            **weights.about,
            "format": str(VERSION),
            "architecture": msgspec.json.encode(weights.architecture).decode(),
            "node_features": " ".join(NODE_FEATURES),
            "job_features": " ".join(JOB_FEATURES),
        }
    }
    at, blobs = 0, []
    for name, array in weights.arrays.items():
        blobs.append(np.ascontiguousarray(array, "<f4").tobytes())
        entries[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": (at, at + len(blobs[-1]))}
        at += len(blobs[-1])
    header = msgspec.json.encode(entries)
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + b"".join(blobs)


def unpack(data: bytes, name: str) -> Weights:
    """Weights of a file's bytes; name: what messages call it. Raises InvalidWeights."""
    header, body = _header(data, name)
    about = header.pop("__metadata__", None)
    if not isinstance(about, dict) or "format" not in about:
        raise InvalidWeights(f"{name}: these are weights of something else (no 'format' in the header's metadata)")
    architecture = _architecture(about, name)
    shapes = architecture.shapes()
    if differing := sorted(header.keys() ^ shapes.keys()):
        raise InvalidWeights(f"{name}: its arrays are not those of its architecture, beginning with '{differing[0]}'")
    arrays = {array: _array(array, header[array], shape, body, name) for array, shape in shapes.items()}
    own = ("format", "architecture", "node_features", "job_features")
    return Weights(architecture, arrays, {key: str(value) for key, value in about.items() if key not in own})


def _header(data: bytes, name: str) -> tuple[dict[str, Any], bytes]:
    size = int.from_bytes(data[:8], "little")
    if data[:2] in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"):
        raise InvalidWeights(f"{name}: this is a pickle or an archive, as torch.save writes; weights are safetensors")
    if len(data) < 8 or size > min(_HEADER, len(data) - 8):
        raise InvalidWeights(f"{name}: {len(data):,} bytes that are no weights, or only their beginning")
    try:
        header = msgspec.json.decode(data[8 : 8 + size], type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise InvalidWeights(f"{name}: no header of weights: {error}") from None
    return header, data[8 + size :]


def _architecture(about: Mapping[str, Any], name: str) -> Architecture:
    if about["format"] != str(VERSION):
        raise InvalidWeights(f"{name}: weights of format {about['format']}; this version reads {VERSION}")
    for kind, features in (("node_features", NODE_FEATURES), ("job_features", JOB_FEATURES)):
        if about.get(kind) != " ".join(features):
            raise InvalidWeights(f"{name}: {kind} '{about.get(kind)}'; this version has '{' '.join(features)}'")
    try:
        found = msgspec.json.decode(str(about.get("architecture")), type=Architecture)
    except msgspec.DecodeError as error:
        raise InvalidWeights(f"{name}: an architecture that is not known here: {error}") from None
    sizes = (found.embedding, *found.hidden, *found.heads)
    if not found.hidden or not found.heads or not all(1 <= size <= 4096 for size in sizes):
        raise InvalidWeights(f"{name}: an architecture with layers of {sizes}; each has 1 to 4096 numbers")
    return found


def _array(array: str, entry: Any, shape: tuple[int, ...], body: bytes, name: str) -> Floats:
    try:
        found = msgspec.convert(entry, _Entry)
    except msgspec.ValidationError as error:
        raise InvalidWeights(f"{name}: '{array}': {error}") from None
    if (found.dtype, found.shape) != ("F32", shape):
        raise InvalidWeights(f"{name}: '{array}' is {found.dtype} {found.shape}; its architecture says F32 {shape}")
    start, end = found.data_offsets
    if end - start != 4 * math.prod(shape) or not 0 <= start <= end <= len(body):
        raise InvalidWeights(f"{name}: '{array}' lies beyond the file's end; it was cut off or damaged")
    numbers = np.frombuffer(body[start:end], "<f4").reshape(shape).astype(np.float32)
    if not np.isfinite(numbers).all():
        raise InvalidWeights(f"{name}: '{array}' has numbers that are none (NaN or infinite)")
    return numbers
