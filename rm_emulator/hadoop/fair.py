"""The FairScheduler: its properties, and the allocation file with its queue tree, defaults of 3.3.5."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from rm_emulator.hadoop.configuration import Configuration
from rm_emulator.hadoop.xml import Element, read_xml
from rm_emulator.issues import Issues, TraceError
from schedulers.core.errors import nearest

T = TypeVar("T")

_PREFIX: Final = "yarn.scheduler.fair."
_POLICIES: Final = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fair.policies."
_ORDERS: Final = {
    "fair": "fair",
    "fifo": "fifo",
    "drf": "drf",
    f"{_POLICIES}FairSharePolicy": "fair",
    f"{_POLICIES}FifoPolicy": "fifo",
    f"{_POLICIES}DominantResourceFairnessPolicy": "drf",
}
_OLD_STYLE: Final = re.compile(r"-?\d+(?:\.\d*)?\s*(?:%\s*)?[a-z]+")
_INT: Final = 2**31 - 1
#: What a queue is called in the file.
_QUEUES: Final = ("queue", "pool")
_Settings = dict[str, tuple[str, Callable[[str], object]]]


class Amount(msgspec.Struct, frozen=True, kw_only=True):
    """An amount of resources: whole MB and vcores, or per cent of the cluster's. None: not limited, or not given."""

    mb: int | None = None
    vcores: int | None = None
    mb_percent: float | None = None
    vcores_percent: float | None = None

    def of(self, total: tuple[int, int], otherwise: tuple[int, int]) -> tuple[int, int]:
        """(MB, vcores) in a cluster of this size; `otherwise` where nothing is given. Fractions are cut off."""
        mb = self.mb if self.mb_percent is None else int(total[0] * self.mb_percent / 100)
        vcores = self.vcores if self.vcores_percent is None else int(total[1] * self.vcores_percent / 100)
        return otherwise[0] if mb is None else mb, otherwise[1] if vcores is None else vcores


class FairQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue. `path` and `children`: paths from the root. None: the scheduler's default holds. Times in ms."""

    path: str
    children: tuple[str, ...] = ()
    weight: float = 1.0
    minimum: Amount | None = None
    maximum: Amount | None = None
    max_running_apps: int | None = None
    max_am_share: float | None = None
    """Fraction of the queue's fair share for application masters, -1: no limit."""
    ordering: str | None = None
    min_share_preemption_timeout_ms: int | None = None
    fair_share_preemption_timeout_ms: int | None = None
    fair_share_preemption_threshold: float | None = None

    @property
    def parent(self) -> str:
        """The path above; '' for the root."""
        return self.path.rpartition(".")[0]


class FairConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The queues, parents first, their defaults, and the settings for containers in a node heartbeat."""

    queues: tuple[FairQueue, ...] = (FairQueue(path="root"),)
    default_ordering: str = "fair"
    default_max_am_share: float = 0.5
    default_max_running_apps: int | None = None
    default_maximum: Amount | None = None
    default_min_share_preemption_timeout_ms: int | None = None
    default_fair_share_preemption_timeout_ms: int | None = None
    default_fair_share_preemption_threshold: float = 0.5
    undeclared_queues: bool = True
    assign_multiple: bool = False
    dynamic_max_assign: bool = True
    max_assign: int = -1
    update_ms: int = 500
    reservable_nodes: float = 0.05
    locality_threshold_node: float = -1
    locality_threshold_rack: float = -1
    preemption: bool = False
    not_modelled: tuple[str, ...] = ()
    """Elements of the allocation file without effect here."""


def fair_config(conf: Configuration, folder: Path) -> FairConfig:
    """The scheduler's settings; mistakes are noted in the configuration's issues.

    `folder`: place of the allocation file for a name without a path.
    """
    setting = f"{_PREFIX}allocation.file"
    file = folder / conf.text(setting, "fair-scheduler.xml")
    if setting in conf and not file.is_file():
        beside = [p.name for p in folder.glob("*.xml")]
        file = folder / file.name  # a path of the machine that it was written on
        if not file.is_file():
            conf.wrong(setting, f"there is no file '{conf.text(setting, '')}' in {folder}", nearest(file.name, beside))
            return FairConfig()
    return msgspec.structs.replace(
        read_allocations(file, conf.issues) if file.is_file() else FairConfig(),
        undeclared_queues=conf.flag(f"{_PREFIX}allow-undeclared-pools", True),
        assign_multiple=conf.flag(f"{_PREFIX}assignmultiple", False),
        dynamic_max_assign=conf.flag(f"{_PREFIX}dynamic.max.assign", True),
        max_assign=conf.whole(f"{_PREFIX}max.assign", -1, least=-1),
        update_ms=conf.whole(f"{_PREFIX}update-interval-ms", 500, least=1),
        reservable_nodes=conf.number(f"{_PREFIX}reservable-nodes", 0.05, least=0, most=1),
        locality_threshold_node=conf.number(f"{_PREFIX}locality.threshold.node", -1, least=-1, most=1),
        locality_threshold_rack=conf.number(f"{_PREFIX}locality.threshold.rack", -1, least=-1, most=1),
        preemption=conf.flag(f"{_PREFIX}preemption", False),
    )


def read_allocations(path: Path, issues: Issues) -> FairConfig:
    """The allocation file alone; its mistakes are noted in `issues`."""
    try:
        root = read_xml(path)
    except TraceError as error:
        issues.include(error)
        return FairConfig()
    if root.tag != "allocations":
        issues.add(f"the root element is <{root.tag}> (expected <allocations>)", file=path, line=root.line)
        return FairConfig()
    return _Allocations(path, issues).read(root)


class _Allocations:
    """Reads an allocation file and notes mistakes on the way."""

    def __init__(self, path: Path, issues: Issues) -> None:
        self._path, self._issues = path, issues
        self._not_modelled: dict[str, None] = {}
        self._seen: dict[str, int] = {}

    def read(self, root: Element) -> FairConfig:
        top, settings = self._parts(root, _DEFAULTS, _PASSED_OVER)
        queues = tuple(self._root(top))
        return msgspec.convert(
            {**settings, "queues": queues, "not_modelled": tuple(self._not_modelled)}, FairConfig, from_attributes=True
        )

    def _root(self, top: list[Element]) -> Iterator[FairQueue]:
        """All queues, in a file with the root or with only the queues right below the root."""
        named = [e for e in top if e.attributes.get("name", "").strip() == "root"]
        if len(named) == 1 and len(top) == 1:
            yield from self._queue(named[0], "root")
            return
        yield FairQueue(path="root", children=tuple(f"root.{self._name(e)}" for e in top if self._name(e)))
        for element in top:
            yield from self._child(element, "root")

    def _name(self, element: Element) -> str:
        return element.attributes.get("name", "").strip()

    def _child(self, element: Element, parent: str) -> Iterator[FairQueue]:
        name = self._name(element)
        if not name or "." in name or any(c.isspace() for c in name):
            seen = f"name '{name}'" if name else "no name"
            self._wrong(element, f'{seen} (expected <queue name="..."> without dots or spaces)')
            return
        path = f"{parent}.{name}"
        if path in self._seen:
            self._wrong(element, f"queue '{path}' is declared twice (first in line {self._seen[path]})")
            return
        self._seen[path] = element.line
        yield from self._queue(element, path)

    def _queue(self, element: Element, path: str) -> Iterator[FairQueue]:
        below, settings = self._parts(element, _QUEUE, _QUEUE_PASSED_OVER)
        settings["children"] = tuple(dict.fromkeys(f"{path}.{self._name(e)}" for e in below if self._name(e)))
        settings["path"] = path
        if settings.get("ordering") == "fifo" and below:
            self._wrong(element, f"queue '{path}' has queues below it and the policy fifo, which is for leaves")
        yield msgspec.convert(settings, FairQueue, from_attributes=True)
        for child in below:
            yield from self._child(child, path)

    def _parts(
        self, element: Element, known: _Settings, passed_over: tuple[str, ...]
    ) -> tuple[list[Element], dict[str, object]]:
        """The queues right below, and the settings beside them."""
        settings: dict[str, object] = {}
        for part in element.children:
            if part.tag not in _QUEUES:
                self._setting(part, known, passed_over, settings)
        return [part for part in element.children if part.tag in _QUEUES], settings

    def _setting(
        self, element: Element, known: _Settings, passed_over: tuple[str, ...], into: dict[str, object]
    ) -> None:
        if element.tag in passed_over:
            if not element.tag.startswith("acl"):
                self._not_modelled[element.tag] = None
            return
        if element.tag not in known:
            accepted = ["queue", *known, *passed_over]
            self._wrong(element, f"unknown element (accepted: {', '.join(accepted)})", nearest(element.tag, accepted))
            return
        field, parse = known[element.tag]
        try:
            into[field] = parse(element.text)
        except ValueError as error:
            self._wrong(element, str(error))

    def _wrong(self, element: Element, message: str, hint: str | None = None) -> None:
        self._issues.add(f"<{element.tag}>: {message}", file=self._path, line=element.line, hint=hint)


def parse_amount(text: str) -> Amount:
    """`10240 mb, 10 vcores`, `50% memory, 25% cpu`, `40%` or `memory-mb=10240, vcores=10`. Raises ValueError."""
    accepted = "expected '10240 mb, 10 vcores', '50% memory, 25% cpu', '40%' or 'memory-mb=10240, vcores=10'"
    text = text.strip().lower()
    if re.fullmatch(r"\d+(\.\d*)?\s*%", text):
        share = float(text.rstrip("% "))
        return Amount(mb_percent=share, vcores_percent=share)
    parts = _new_style(text) if "=" in text else _old_style(text)
    if parts is None:
        raise ValueError(f"'{text}' is not an amount of resources ({accepted})")
    amounts: dict[str, int | float] = {}
    for name, value in parts:
        field = {"memory-mb": "mb", "memory": "mb", "mb": "mb", "vcores": "vcores", "cpu": "vcores"}.get(name)
        number = re.fullmatch(r"(\d+)(\.\d*)?\s*(%?)", value)
        if field is None or number is None or (number[2] and not number[3] and "=" in text):
            raise ValueError(f"'{text}' is not an amount of resources ({accepted})")
        if number[3]:
            amounts[f"{field}_percent"] = float(value.rstrip("% "))
        else:
            amounts[field] = int(number[1])
    return Amount(**amounts)  # type: ignore[arg-type]


def _new_style(text: str) -> list[tuple[str, str]] | None:
    pairs = [part.partition("=") for part in text.split(",")]
    return [(name.strip(), value.strip()) for name, equals, value in pairs] if all(p[1] for p in pairs) else None


def _old_style(text: str) -> list[tuple[str, str]] | None:
    parts = _OLD_STYLE.findall(text)
    if len(parts) != 2 or re.sub(r"[\s,]", "", text) != re.sub(r"[\s,]", "", "".join(parts)):
        return None
    pairs = [(re.findall(r"[a-z]+", part)[0], re.findall(r"[\d.%\s-]+", part)[0].strip()) for part in parts]
    units = {("%" in value, name) for name, value in pairs}
    complete = {(False, "mb"), (False, "vcores")}, {(True, "memory"), (True, "cpu")}
    return pairs if units in complete else None


def _number(least: float, most: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not least <= value <= most:
            raise ValueError(f"'{text}' is not accepted (expected a number from {least:g} to {most:g})")
        return value

    return parse


def _whole(factor: int = 1) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"\d{1,10}", text) or int(text) > _INT:
            raise ValueError(f"'{text}' is not accepted (expected a whole number from 0 to {_INT})")
        return int(text) * factor

    return parse


def _order(text: str) -> str:
    order = _ORDERS.get(text) or _ORDERS.get(text.lower())
    if order is None:
        near = nearest(text.lower(), _ORDERS)
        hint = f", did you mean '{near}'?" if near else ""
        raise ValueError(f"'{text}' is not a scheduling policy (accepted: {', '.join(_ORDERS)}){hint}")
    return order


def _leaf_default(text: str) -> str:
    """The default of all queues; fifo is refused, as a policy for leaves only."""
    if _order(text) == "fifo":
        raise ValueError("'fifo' is for leaves, it cannot be the default of all queues (accepted: fair, drf)")
    return _order(text)


#: Elements of the file: the field they set, and how they are read. Times are seconds in the file.
_DEFAULTS: Final[_Settings] = {
    "defaultQueueSchedulingPolicy": ("default_ordering", _leaf_default),
    "defaultQueueSchedulingMode": ("default_ordering", _leaf_default),
    "queueMaxAMShareDefault": ("default_max_am_share", _number(-1, 1)),
    "queueMaxAppsDefault": ("default_max_running_apps", _whole()),
    "queueMaxResourcesDefault": ("default_maximum", parse_amount),
    "defaultMinSharePreemptionTimeout": ("default_min_share_preemption_timeout_ms", _whole(1000)),
    "defaultFairSharePreemptionTimeout": ("default_fair_share_preemption_timeout_ms", _whole(1000)),
    "fairSharePreemptionTimeout": ("default_fair_share_preemption_timeout_ms", _whole(1000)),
    "defaultFairSharePreemptionThreshold": ("default_fair_share_preemption_threshold", _number(0, 1)),
}
_PASSED_OVER: Final = (
    "user",
    "userMaxAppsDefault",
    "queuePlacementPolicy",
    "reservation-planner",
    "reservation-agent",
    "reservation-policy",
)
_QUEUE: Final[_Settings] = {
    "weight": ("weight", _number(0, 1e9)),
    "minResources": ("minimum", parse_amount),
    "maxResources": ("maximum", parse_amount),
    "maxRunningApps": ("max_running_apps", _whole()),
    "maxAMShare": ("max_am_share", _number(-1, 1)),
    "schedulingPolicy": ("ordering", _order),
    "schedulingMode": ("ordering", _order),
    "minSharePreemptionTimeout": ("min_share_preemption_timeout_ms", _whole(1000)),
    "fairSharePreemptionTimeout": ("fair_share_preemption_timeout_ms", _whole(1000)),
    "fairSharePreemptionThreshold": ("fair_share_preemption_threshold", _number(0, 1)),
}
_QUEUE_PASSED_OVER: Final = (
    "maxContainerAllocation",
    "maxChildResources",
    "allowPreemptionFrom",
    "reservation",
    "aclSubmitApps",
    "aclAdministerApps",
    "aclAdministerReservations",
    "aclListReservations",
    "aclSubmitReservations",
)
