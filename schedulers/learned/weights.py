"""A network's weights as the bytes of a safetensors file, read without a pickle and without torch."""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, ClassVar, Final

import msgspec
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from schedulers.core.errors import InvalidWeights
from schedulers.learned.graph import CLASS_FEATURES, JOB_FEATURES, NODE_FEATURES, Floats
from schedulers.learned.guide import GUIDE_FEATURES
from schedulers.learned.orders import RULES
from schedulers.learned.ranges import FEATURES, Range, Ranges
from schedulers.learned.routes import LEFT_FEATURES, ROUTE_FEATURES

#: Format of the files that `pack` writes: all metadata is the JSON value of one key, because safetensors writes several
#: keys in a random order. Files of format 1 have a key for each entry; files before
#: format 3 have no checksum.
FORMAT: Final = 3
_KEY: Final = "network"
_PICKLES: Final = (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


class NetworkSizes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes of a network."""

    kind: ClassVar[str] = ""
    """Name of the policy of the network."""
    nodes: ClassVar[tuple[str, ...]] = ()
    """Features of a stage."""
    jobs: ClassVar[tuple[str, ...]] = ()
    """Features of a job."""
    scoring: ClassVar[tuple[str, ...]] = ()
    """Parts with scores as output."""

    embedding: int
    """Width of the summaries of a stage, a job and all jobs."""
    hidden: tuple[int, ...]
    """Widths of the hidden layers of transforms."""
    heads: tuple[int, ...]
    """Widths of the hidden layers of scoring parts."""

    @abstractmethod
    def widths(self) -> dict[str, tuple[int, ...]]:
        """Widths of the layers of each part of the network, input first."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each array, by name: weights [inputs, outputs] and biases [outputs] of each layer."""
        shapes: dict[str, tuple[int, ...]] = {}
        for part, widths in self.widths().items():
            for layer, (inputs, outputs) in enumerate(pairwise(widths)):
                shapes[f"{part}.{layer}.weight"] = (inputs, outputs)
                shapes[f"{part}.{layer}.bias"] = (outputs,)
        return shapes

    @property
    def parameters(self) -> int:
        """Number of weights and biases."""
        return sum(math.prod(shape) for shape in self.shapes().values())


class Architecture(NetworkSizes, frozen=True, forbid_unknown_fields=True):
    """Sizes of a network of Decima's kind (SIGCOMM'19, section 5.1 and appendix)."""

    kind: ClassVar[str] = "decima"
    nodes: ClassVar[tuple[str, ...]] = NODE_FEATURES
    jobs: ClassVar[tuple[str, ...]] = JOB_FEATURES
    scoring: ClassVar[tuple[str, ...]] = ("stage", "limit", "class")

    summaries: bool = True
    """Whether sums over stages and over jobs are transformed again, as in the paper, but not in the released code."""
    own: bool = False
    """Whether messages leave out `job_executors`, so that messages stay the same when the job gets executors."""
    classes: bool = False
    """Whether executor classes are scored, as limits are; else the smallest with room is taken (Decima, 7.3)."""
    guided: bool = False
    """Whether the network reads what a rule would do with each job (GUIDE_FEATURES), an addition of ours."""

    @property
    def passed(self) -> tuple[int, ...]:
        """Indexes of the features in messages."""
        return tuple(i for i, feature in enumerate(NODE_FEATURES) if not self.own or feature != "job_executors")

    def widths(self) -> dict[str, tuple[int, ...]]:
        """Widths of the layers of each part of the network, input first.

        `message` and `node` are the paper's f and g for stages, `row` and `job` for jobs, `term` and `world` for all.
        """
        nodes, jobs, wide = len(NODE_FEATURES), len(JOB_FEATURES), self.embedding
        jobs += self.guided * len(GUIDE_FEATURES)
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
            "limit": (2 * wide + jobs + 1 + self.guided, *self.heads, 1),
        }
        if not self.summaries:
            del parts["job"], parts["world"]
        if self.classes:
            parts["class"] = (2 * wide + jobs + len(CLASS_FEATURES), *self.heads, 1)
        return parts


class OrderSizes(NetworkSizes, frozen=True, forbid_unknown_fields=True):
    """Sizes of a network of LACHESIS's kind (arXiv 2103.06980, equation 7, sections IV-B and V-A).

    The paper has three layers, and heads of 32, 16 and 8. The paper does not give the other widths.
    """

    kind: ClassVar[str] = "lachesis"
    nodes: ClassVar[tuple[str, ...]] = ROUTE_FEATURES
    jobs: ClassVar[tuple[str, ...]] = LEFT_FEATURES
    scoring: ClassVar[tuple[str, ...]] = ("stage", "value")

    layers: Annotated[int, msgspec.Meta(ge=1, le=64)] = 3
    """Number of passes of messages from children to parents, by the same transforms."""

    def widths(self) -> dict[str, tuple[int, ...]]:
        """See Sizes. `message` and `moves` are the paper's g and h; `value`, the critic, reads the summary of all."""
        nodes, jobs, wide = len(self.nodes), len(self.jobs), self.embedding
        inner = (*self.hidden, wide)
        return {
            "prepare": (nodes, *inner),
            "message": (wide, *inner),
            "moves": (1, *inner),
            "row": (nodes + wide, *inner),
            "job": (wide + jobs, *inner),
            "world": (wide, *inner),
            "stage": (2 * nodes + 3 * wide + jobs, *self.heads, 1),
            "value": (wide, *self.heads, 1),
        }


#: By name. With an embedding of 14 the first has 12,724 parameters; the paper, with other features, says 12,736.
ARCHITECTURES: Final[Mapping[str, Architecture]] = {
    "decima": Architecture(embedding=14, hidden=(32, 16), heads=(32, 16), own=True),
    "released": Architecture(embedding=8, hidden=(16, 8), heads=(32, 16, 8), summaries=False),
    "classes": Architecture(embedding=14, hidden=(32, 16), heads=(32, 16), own=True, classes=True),
    "guided": Architecture(embedding=14, hidden=(32, 16), heads=(32, 16), own=True, guided=True),
    "guided_classes": Architecture(embedding=14, hidden=(32, 16), heads=(32, 16), own=True, guided=True, classes=True),
}
LACHESIS: Final = OrderSizes(embedding=8, hidden=(16,), heads=(32, 16, 8))
_KINDS: Final[Mapping[str, type[NetworkSizes]]] = {each.kind: each for each in (Architecture, OrderSizes)}


class Weights(msgspec.Struct, frozen=True, eq=False):
    """A network as plain arrays."""

    architecture: NetworkSizes
    arrays: Mapping[str, Floats]
    """By name as in `Sizes.shapes`, float32."""
    about: Mapping[str, str] = {}
    """Notes of the training run, for people."""

    @property
    def most(self) -> Mapping[str, int]:
        """The largest sizes of observations in training, as far as `about` says ("most jobs": "60")."""
        said = {key.removeprefix("most "): value for key, value in self.about.items() if key.startswith("most ")}
        return {key: int(value) for key, value in said.items() if value.isdecimal()}

    @property
    def ranges(self) -> Ranges:
        """Ranges of observations in training; empty where `about` says none."""
        return msgspec.json.decode(self.about.get("ranges", "{}"), type=dict[str, Range])

    @property
    def rule(self) -> str:
        """Rule that decides outside of the ranges."""
        return self.about.get("rule", "priced")


class _Header(msgspec.Struct, frozen=True):
    """The header of a safetensors file without its arrays."""

    metadata: dict[str, str] = msgspec.field(name="__metadata__", default_factory=dict)


def initial(architecture: NetworkSizes, generator: np.random.Generator) -> Weights:
    """Weights before training: Glorot's, zero biases, and small scores: all choices are about equally likely."""
    arrays = {}
    last = {f"{part}.{len(architecture.heads)}.weight" for part in architecture.scoring}
    for name, shape in architecture.shapes().items():
        bound = math.sqrt(6 / sum(shape)) if len(shape) == 2 else 0.0
        drawn = generator.uniform(-bound, bound, shape) * (0.01 if name in last else 1.0)
        arrays[name] = drawn.astype(np.float32)
    return Weights(architecture, arrays)


def pack(weights: Weights) -> bytes:
    """The file. Equal weights give equal bytes."""
    network = {
        **weights.about,
        "format": str(FORMAT),
        "kind": weights.architecture.kind,
        "architecture": msgspec.json.encode(weights.architecture).decode(),
        "node_features": " ".join(weights.architecture.nodes),
        "job_features": " ".join(weights.architecture.jobs),
    }
    # The library reads memory as it lies, so arrays have to be contiguous.
    arrays = {name: np.ascontiguousarray(array, np.float32) for name, array in weights.arrays.items()}
    network["sha256"] = _sha256(arrays)
    return save(arrays, {_KEY: msgspec.json.encode(network).decode()})


def unpack(data: bytes, name: str) -> Weights:
    """Weights from a file's bytes; name: the file's name in messages. Raises InvalidWeights."""
    if data.startswith(_PICKLES):
        raise InvalidWeights(f"{name}: this is a pickle or an archive, as torch.save writes; weights are safetensors")
    try:
        arrays = load(data)
        about = _metadata(data)
    except (SafetensorError, KeyError, ValueError) as error:
        why = f"{len(data):,} bytes that are no weights, or only their beginning: {error}"
        raise InvalidWeights(f"{name}: {why}") from None
    if "format" not in about:
        raise InvalidWeights(f"{name}: these are weights of something else (no 'format' in the header's metadata)")
    architecture = _architecture(about, name)
    shapes = architecture.shapes()
    if differing := sorted(arrays.keys() ^ shapes.keys()):
        raise InvalidWeights(f"{name}: its arrays are not those of its architecture, beginning with '{differing[0]}'")
    for array, shape in shapes.items():
        found = arrays[array]
        if found.dtype != np.float32 or found.shape != shape:
            raise InvalidWeights(
                f"{name}: '{array}' is {found.dtype} {found.shape}; its architecture says float32 {shape}"
            )
        if not np.isfinite(found).all():
            raise InvalidWeights(f"{name}: '{array}' has numbers that are none (NaN or infinite)")
    if about.get("sha256", (digest := _sha256(arrays))) != digest:
        raise InvalidWeights(f"{name}: damaged: its numbers are not those that were written (sha256 {digest[:12]}...)")
    _check_ranges(about, name)
    own = ("format", "kind", "architecture", "node_features", "job_features", "sha256")
    return Weights(
        architecture,
        {array: arrays[array] for array in shapes},
        {key: value for key, value in about.items() if key not in own},
    )


def _check_ranges(about: Mapping[str, str], name: str) -> None:
    """Raise InvalidWeights for ranges that are none, and for an unknown rule."""
    try:
        ranges = msgspec.json.decode(about.get("ranges", "{}"), type=dict[str, Range])
    except msgspec.DecodeError as error:
        raise InvalidWeights(f"{name}: ranges of training that cannot be read: {error}") from None
    if wrong := [key for key, (low, high) in ranges.items() if key not in FEATURES or not low <= high]:
        raise InvalidWeights(f"{name}: '{wrong[0]}' has no range from low to high (known: {', '.join(FEATURES)})")
    if (rule := about.get("rule", "priced")) not in RULES:
        raise InvalidWeights(f"{name}: unknown rule '{rule}' (known: {', '.join(RULES)})")


def _sha256(arrays: Mapping[str, Floats]) -> str:
    """The sha256 of the numbers of all arrays, in the order of their names."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()


def _metadata(data: bytes) -> dict[str, str]:
    """The metadata of bytes that `load` has accepted; the library gives metadata only for files on a disk."""
    size = int.from_bytes(data[:8], "little")
    metadata = msgspec.json.decode(data[8 : 8 + size], type=_Header).metadata
    return msgspec.json.decode(metadata[_KEY], type=dict[str, str]) if _KEY in metadata else metadata


def _architecture(about: Mapping[str, str], name: str) -> NetworkSizes:
    if about["format"] not in map(str, range(1, FORMAT + 1)):
        raise InvalidWeights(f"{name}: weights of format {about['format']}; this version reads 1 to {FORMAT}")
    kind = _KINDS.get(about.get("kind", Architecture.kind))  # the first files of format 1 say none
    if kind is None:
        raise InvalidWeights(f"{name}: weights for '{about['kind']}'; there are networks of {' and '.join(_KINDS)}")
    for key, features in (("node_features", kind.nodes), ("job_features", kind.jobs)):
        if about.get(key) != " ".join(features):
            raise InvalidWeights(f"{name}: {key} '{about.get(key)}'; this version has '{' '.join(features)}'")
    try:
        found = msgspec.json.decode(about.get("architecture", ""), type=kind)
    except msgspec.DecodeError as error:
        raise InvalidWeights(f"{name}: an architecture that is not known here: {error}") from None
    sizes = (found.embedding, *found.hidden, *found.heads)
    if not found.hidden or not found.heads or not all(1 <= size <= 4096 for size in sizes):
        raise InvalidWeights(f"{name}: an architecture with layers of {sizes}; each has 1 to 4096 numbers")
    return found
