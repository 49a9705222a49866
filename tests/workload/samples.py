"""A small file of each format, written to its published description (the source stands in the reader's docstring)."""

# ruff: noqa: E501  # rows as their programs print them
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

#: Parallel Workloads Archive, swf.html: 18 numbers, -1 unknown, ';' comments.
SWF = """\
; Version: 2.2
; MaxProcs: 64
1   0 10  60  4 -1 2048  4  120 -1 1 3 1 7 1 -1 -1 -1
2  30  0   0  1 -1   -1  1   -1 -1 1 3 1 7 1 -1 -1 -1
3  40 -1  -1 -1 -1   -1  8   -1 -1 5 4 1 8 2 -1 -1 -1
4  50  5  30 -1 -1   -1  2   -1 4096 0 -1 -1 -1 -1 -1 1 10
4  50  5  10 -1 -1   -1  2   -1 4096 2 -1 -1 -1 -1 -1 -1 -1
"""

#: sacct(1), job_array.html: steps, arrays, heterogeneous jobs, states, TRES.
SACCT = """\
JobID|JobName|User|Partition|Submit|Start|End|Elapsed|Timelimit|State|ReqTRES|AllocTRES
100|train|ann|gpu|2024-03-01T10:00:00|2024-03-01T10:05:00|2024-03-02T12:08:04|1-02:03:04|2-00:00:00|COMPLETED|billing=8,cpu=8,mem=32G,node=2|billing=8,cpu=8,gres/gpu=4,gres/gpu:a100=4,mem=32G,node=2
100.batch|batch||||2024-03-01T10:05:00|2024-03-02T12:08:04|1-02:03:04||COMPLETED||cpu=4,mem=16G,node=1
100.extern|extern||||2024-03-01T10:05:00|2024-03-02T12:08:04|1-02:03:04||COMPLETED||cpu=8,mem=32G,node=2
101_0|sweep|bob|cpu|2024-03-01T10:00:30|2024-03-01T10:01:00|2024-03-01T10:02:00|00:01:00|UNLIMITED|COMPLETED|cpu=1,mem=500M,node=1|cpu=1,mem=500M,node=1
101_1|sweep|bob|cpu|2024-03-01T10:00:30|2024-03-01T10:01:00|2024-03-01T10:04:00|00:03:00|UNLIMITED|TIMEOUT|cpu=1,mem=500M,node=1|cpu=1,mem=500M,node=1
101_[2-9]|sweep|bob|cpu|2024-03-01T10:00:30|Unknown|Unknown|00:00:00|UNLIMITED|PENDING|cpu=1,mem=500M,node=1|
102|oops|bob|cpu|2024-03-01T10:01:00|None|2024-03-01T10:02:00|00:00:00|01:00:00|CANCELLED by 1000|cpu=1,mem=4000M,node=1|
103|again|ann|cpu|2024-03-01T11:00:00|2024-03-01T11:00:10|2024-03-01T11:01:00|00:00:50|01:00:00|NODE_FAIL|cpu=2,mem=1G,node=1|cpu=2,mem=1G,node=1
103|again|ann|cpu|2024-03-01T11:01:00|2024-03-01T11:02:00|2024-03-01T11:04:00|00:02:00|01:00:00|COMPLETED|cpu=2,mem=1G,node=1|cpu=2,mem=1G,node=1
104+0|het|ann|cpu|2024-03-01T12:00:00|2024-03-01T12:00:00|2024-03-01T12:00:10|00:00:10|01:00:00|FAILED|cpu=1,mem=1G,node=1|cpu=1,mem=1G,node=1
104+1|het|ann|cpu|2024-03-01T12:00:00|2024-03-01T12:00:00|2024-03-01T12:00:10|00:00:10|01:00:00|FAILED|cpu=4,mem=8G,node=1|cpu=4,mem=8G,node=1
"""


def _app(number: int, **fields: object) -> dict[str, object]:
    """ResourceManagerRest.md, Cluster Applications API: an element of apps.app."""
    return {
        "id": f"application_1476912658570_{number:04}",
        "user": "ann",
        "name": "word count",
        "queue": "root.prod",
        "state": "FINISHED",
        "finalStatus": "SUCCEEDED",
        "progress": 100.0,
        "applicationType": "MAPREDUCE",
        "startedTime": 1476913457000,
        "launchTime": 1476913458000,
        "finishedTime": 1476913478000,
        "elapsedTime": 21000,
        "allocatedMB": -1,
        "memorySeconds": 122880,
        "vcoreSeconds": 60,
        "preemptedResourceMB": 0,
    } | fields


YARN_APPS = json.dumps(
    {
        "apps": {
            "app": [
                _app(1),
                _app(2, startedTime=1476913467000, launchTime=0, state="KILLED", finalStatus="KILLED"),
                _app(3, state="RUNNING", finalStatus="UNDEFINED", finishedTime=0),
                _app(4, vcoreSeconds=0, memorySeconds=0),
            ]
        }
    }
)

#: Format + schema v2.1, task events: 13 columns, no header, microseconds.
GOOGLE_2011 = """\
600000000,,3418309,0,,0,u1,3,9,0.125,0.07446,0.0004,0
600000000,,3418309,1,,0,u1,3,9,0.125,0.07446,0.0004,0
601000000,,3418309,0,4155527081,1,u1,3,9,0.125,0.07446,0.0004,0
602000000,,3418309,1,4155527081,1,u1,3,9,0.125,0.07446,0.0004,0
603000000,,3418309,1,4155527081,2,u1,3,9,0.125,0.07446,0.0004,0
603000000,,3418309,1,,0,u1,3,9,0.125,0.07446,0.0004,0
610000000,,3418309,1,329150663,1,u1,3,9,0.125,0.07446,0.0004,0
661000000,,3418309,0,4155527081,4,u1,3,9,0.125,0.07446,0.0004,0
700000000,,3418309,1,329150663,5,u1,3,9,0.125,0.07446,0.0004,0
0,2,3418314,0,3938719206,0,u2,3,9,0.125,0.07446,0.0004,0
0,2,3418314,0,3938719206,1,u2,3,9,0.125,0.07446,0.0004,0
9223372036854775807,,3418314,0,3938719206,4,u2,3,9,0.125,0.07446,0.0004,0
"""
#: job events: 8 columns.
GOOGLE_2011_JOBS = "600000000,,3418309,0,u1,3,a hashed name,a logical name\n"


def _instance(time: int, kind: object, index: int, collection: str = "94591244395", **more: object) -> str:
    """clusterdata_trace_format_v3.proto, InstanceEvent, as BigQuery writes it: 64-bit numbers as text."""
    row = {
        "time": str(time),
        "type": kind,
        "collection_id": collection,
        "priority": 200,
        "instance_index": index,
        "resource_request": {"cpus": 0.25, "memory": 0.5},
    }
    return json.dumps(row | more)


GOOGLE_2019 = "\n".join(
    [
        _instance(700_000_000, 0, 0),
        _instance(700_000_000, "SUBMIT", 1),
        _instance(740_000_000, 6, 0),
        _instance(710_000_000, 3, 0),
        _instance(710_000_000, "SCHEDULE", 1),
        _instance(715_000_000, 10, 1),
        _instance(780_000_000, 7, 1),
        _instance(700_000_000, 0, 0, "5", collection_type=1),
        "",
    ]
)
GOOGLE_2019_CSV = """\
time,type,collection_id,instance_index,collection_type,resource_request.cpus,resource_request.memory
700000000,0,94591244395,0,0,0.25,0.5
710000000,3,94591244395,0,0,0.25,0.5
740000000,6,94591244395,0,0,0.25,0.5
"""
GOOGLE_2019_COLLECTIONS = (
    json.dumps(
        {
            "time": "700000000",
            "type": 0,
            "collection_id": "94591244395",
            "user": "u7",
            "collection_logical_name": "a logical name",
            "start_after_collection_ids": ["4"],
        }
    )
    + "\n"
)

#: cluster-trace-gpu-v2023/README.md.
OPENB = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
openb-pod-0017,88000,327680,8,1000,,Burstable,Succeeded,9437497,10769854,9437497
openb-pod-0022,4000,15258,1,220,,BE,Running,9679175,9973826,9679176
openb-pod-0035,16000,32768,1,1000,V100M16|V100M32,LS,Failed,9967058,9968575,9967063
openb-pod-0061,11908,47104,1,1000,,BE,Pending,10001278,10001403,
"""


def pod(name: str, phase: str = "Succeeded", start: str = "10:00:05", end: str = "10:01:05", **more: object) -> dict:
    """Kubernetes API, Pod v1: what `kubectl get pods -A -o json` lists."""
    terminated = {"exitCode": 0, "startedAt": f"2024-03-01T{start}Z", "finishedAt": f"2024-03-01T{end}Z"}
    state = {"terminated": terminated} if phase in ("Succeeded", "Failed") else {"running": {}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "creationTimestamp": "2024-03-01T10:00:00Z",
            "labels": {"kueue.x-k8s.io/queue-name": "prod"},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "nightly-28487520", "uid": "1"}],
        },
        "spec": {
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300}],
        },
        "status": {"phase": phase, "containerStatuses": [{"name": "main", "state": state}]},
    } | more


def pods(*found: dict) -> str:
    return json.dumps({"apiVersion": "v1", "items": list(found), "kind": "List"}, indent=2)


PODS = pods(
    pod("nightly-28487520-abcde"),
    pod("nightly-28487520-fghij", "Failed", end="10:03:05"),
    pod("nightly-28487520-klmno", "Running"),
)

#: cluster-trace-gpu-v2020/README.md and data/*.header.
PAI = {
    "pai_job_table.csv": "j1,i1,ann,Terminated,100.0,500.0\nj2,i2,bob,Waiting,200.0,\n",
    "pai_task_table.csv": (
        "j1,ps,1.0,Terminated,110.0,500.0,600.0,29.296875,0.0,MISC\n"
        "j1,worker,2.0,Terminated,120.0,480.0,400.0,10.0,50.0,V100\n"
        "j2,worker,1.0,Waiting,,,400.0,10.0,100.0,V100\n"
    ),
    "pai_instance_table.csv": (
        "j1,worker,a,w0,i1,Terminated,120.0,420.0,m1\nj1,worker,b,w1,i1,Terminated,120.0,480.0,m2\n"
    ),
    "pai_group_tag_table.csv": "i1,ann,V100,a-group,ctr\n",
}

FILES = {
    "swf": ("log.swf", SWF),
    "sacct": ("sacct.txt", SACCT),
    "yarn_apps": ("apps.json", YARN_APPS),
    "google2011": ("part-00000-of-00500.csv", GOOGLE_2011),
    "google2019": ("instance_events.json", GOOGLE_2019),
    "openb": ("pods.csv", OPENB),
    "pods": ("pods.json", PODS),
}


def _ran(ident: str, seconds: float, **fields: object) -> dict[str, object]:
    return {"id": ident, "runtimeInSeconds": seconds, "machines": ["worker-1"]} | fields


#: WfCommons, wfcommons-schema.json (WfFormat 1.5): a diamond; `big.dat` comes from outside, `notes.txt` is read by nobody.
WFFORMAT = json.dumps(
    {
        "name": "diamond",
        "schemaVersion": "1.5",
        "author": {"name": "ann", "email": "ann@example.org"},
        "runtimeSystem": {"name": "Pegasus", "version": "5.0"},
        "workflow": {
            "specification": {
                "tasks": [
                    {
                        "name": "split",
                        "id": "split_1",
                        "parents": [],
                        "children": ["map_1", "map_2"],
                        "inputFiles": ["big.dat"],
                        "outputFiles": ["a.dat", "b.dat", "notes.txt"],
                    },
                    {
                        "name": "map",
                        "id": "map_1",
                        "parents": ["split_1"],
                        "children": ["join_1"],
                        "inputFiles": ["a.dat", "big.dat"],
                        "outputFiles": ["a.out"],
                    },
                    {
                        "name": "map",
                        "id": "map_2",
                        "parents": ["split_1"],
                        "children": ["join_1"],
                        "inputFiles": ["a.dat", "b.dat"],
                        "outputFiles": ["b.out"],
                    },
                    {
                        "name": "join",
                        "id": "join_1",
                        "parents": ["map_1", "map_2"],
                        "children": [],
                        "inputFiles": ["a.out"],
                    },
                ],
                "files": [
                    {"id": "big.dat", "sizeInBytes": 900_000},
                    {"id": "a.dat", "sizeInBytes": 3000},
                    {"id": "b.dat", "sizeInBytes": 400},
                    {"id": "notes.txt", "sizeInBytes": 7},
                    {"id": "a.out", "sizeInBytes": 50},
                    {"id": "b.out", "sizeInBytes": 60},
                ],
            },
            "execution": {
                "makespanInSeconds": 30,
                "executedAt": "2024-03-01T10:00:00Z",
                "tasks": [
                    _ran("split_1", 10.5, coreCount=2, memoryInBytes=1048577),
                    _ran("map_2", 4),
                    _ran("map_1", 3, coreCount=0.5),
                    _ran("join_1", 0),
                ],
                "machines": [
                    {
                        "nodeName": "worker-1",
                        "cpu": {"coreCount": 48, "speedInMHz": 1200},
                        "memoryInBytes": 137438953472,
                    }
                ],
            },
        },
    },
    indent=1,
)

#: WfFormat 1.4: the same, with all of a task in one place; parents are called by name or by id.
WFFORMAT_14 = json.dumps(
    {
        "name": "diamond",
        "schemaVersion": "1.4",
        "wms": {"name": "Pegasus", "version": "4.9"},
        "workflow": {
            "makespanInSeconds": 30,
            "executedAt": "2024-03-01T10:00:00Z",
            "tasks": [
                {
                    "name": "split_ID01",
                    "id": "ID01",
                    "type": "compute",
                    "runtimeInSeconds": 10.5,
                    "cores": 2,
                    "memoryInBytes": 1048577,
                    "machine": "worker-1",
                    "files": [
                        {"name": "big.dat", "sizeInBytes": 900_000, "link": "input"},
                        {"name": "a.dat", "sizeInBytes": 3000, "link": "output"},
                    ],
                },
                {
                    "name": "map_ID02",
                    "id": "ID02",
                    "type": "compute",
                    "runtimeInSeconds": 3,
                    "parents": ["split_ID01"],
                    "files": [{"name": "a.dat", "sizeInBytes": 3000, "link": "input"}],
                },
                {"name": "join_ID03", "id": "ID03", "type": "auxiliary", "runtimeInSeconds": 1, "parents": ["ID02"]},
            ],
            "machines": [{"nodeName": "worker-1", "cpu": {"count": 48, "speed": 2400}}],
        },
    },
    indent=1,
)
FILES["wfformat"] = ("flow.json", WFFORMAT)


def write(name: str, folder: Path) -> Path:
    """The format's sample as a file, or a folder of them."""
    if name == "alibaba2020":
        for file, text in PAI.items():
            (folder / file).write_text(text)
        return folder
    file, text = FILES[name]
    (folder / file).write_text(text)
    return folder / file


NAMES = (*FILES, "alibaba2020")
Change = Callable[[str], str]

CSV = """\
job,name,user,queue,submit,stage,parents,cpu,memory,res:gpu,durations
a,nightly,ann,prod,2024-03-01T10:00:00,read,,1,2Gi,,1;2
a,,,,,write,read,1,2Gi,1,3
"""
#: As a spreadsheet in German writes it: separated by `;`, days before months; COMMAS: with decimal commas too.
LOCAL_CSV = """\
Auftrag;Eingang;Start;Ende;Kerne;Speicher
17;01.03.2024 10:00:00;01.03.2024 10:00:05;01.03.2024 10:02:05;2;2 GB
18;15.03.2024 10:00:30;15.03.2024 10:01:00;15.03.2024 10:01:40;1;512 MB
"""
COMMAS_CSV = LOCAL_CSV.replace(";2;2 GB", ";1,5;2 GB")
BATCH_2017 = "10,40,1,1,2,Terminated,50,0.01\n10,40,1,2,1,Terminated,100,0.02\n"
BATCH_2018 = "M1,2,j_1,1,Terminated,10,40,100,0.5\nR2_1,1,j_1,1,Terminated,40,60,100,0.5\n"
SLS = """\
{"am.type": "mapreduce", "job.start.ms": 0, "job.end.ms": 9000, "job.queue.name": "prod", "job.id": "a",
 "job.user": "ann", "job.tasks": [
  {"container.type": "map", "container.start.ms": 0, "container.end.ms": 1000},
  {"container.type": "map", "container.start.ms": 0, "container.end.ms": 2000},
  {"container.type": "reduce", "container.start.ms": 0, "container.end.ms": 2000}]}
"""
DECIMA = json.dumps(
    {
        "source": "made up",
        "queries": [
            {
                "query": 1,
                "size": "2g",
                "edges": [[0, 1]],
                "stages": [
                    {"tasks": 3, "fresh_durations": {5: [9]}, "first_wave": {5: [9, 4]}, "rest_wave": {5: [2]}},
                    {"tasks": 1, "fresh_durations": {5: [9]}, "first_wave": {5: [9, 4]}, "rest_wave": {5: [2]}},
                ],
            }
        ],
    }
)
_GPU = {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
#: Files with all facts that their format has.
_WHOLE = {
    **{name: {file: text} for name, (file, text) in FILES.items()},
    "csv": {"jobs.csv": CSV},
    "alibaba2017": {"batch_task.csv": BATCH_2017},
    "alibaba2018": {"batch_task.csv": BATCH_2018},
    "alibaba2020": PAI,
    "decima": {"profiles.json": DECIMA},
    "hadoop": {"jobs.json": SLS},
    "google2011": {"task_events.csv": GOOGLE_2011, "job_events.csv": GOOGLE_2011_JOBS},
    "google2019": {"instance_events.json": GOOGLE_2019, "collection_events.json": GOOGLE_2019_COLLECTIONS},
    "pods": {"pods.json": pods(pod("a-abcde", spec=_GPU), *json.loads(PODS)["items"])},
}


def whole(name: str, folder: Path) -> Path:
    """A sample with all facts that the format has: a file, or a folder of several files."""
    for file, text in _WHOLE[name].items():
        (folder / file).write_text(text)
    return folder if len(_WHOLE[name]) > 1 else folder / file
