# ruff: noqa: E501, RUF001 (rows as they stand; digits that are none here)
"""Tables and traces that are damaged or mistaken: exit code 2, the line and the column, and no workload half written."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.workload import samples

Refused = Callable[..., str]

#: A table -> what is said.
TABLES: Final = [
    (b"", "t.csv: the file is empty"),
    (b"job,submit,tasks,mean\n", "t.csv: a header but no rows"),
    (b"job,submit,tasks,mean", "t.csv: a header but no rows"),
    (b"job,submit,tasks,mean\na,0,1,\x003\n", "t.csv:2 column 'mean': '\x003' is not a number"),
    (b'job,submit,tasks,mean\n"a,0,1,3\n', "t.csv:2: not CSV from here on: unexpected end of data"),
    (b'job,submit,tasks,mean\n"a"x,0,1,3\n', "t.csv:2: not CSV from here on: ',' expected after '\"'"),
    (b"job,submit,tasks,mean\na,0\n", "t.csv:2: 2 cells, but the header has 4"),
    (b"job,submit,tasks,mean\na,0,1,3,4\n", "t.csv:2: 5 cells, but the header has 4"),
    (b"job,job,mean\na,b,3\n", "t.csv:1 column 'job': this column is there twice"),
    (b"name,mean\na,3\n", "t.csv:1: there is no column 'job'"),
    (b"jobs,mean\na,3\n", "t.csv:1 column 'jobs': not a known column (known: job, name, user, app,"),
    (b"job,submit,tasks,mean\na,0,1,-3\n", "t.csv:2 column 'mean': -3 is negative (a duration is 0 or more)"),
    (b"job,submit,tasks,mean\na,0,1,nan\n", "t.csv:2 column 'mean': 'nan' is not a finite number"),
    (b"job,submit,tasks,mean\na,0,1,inf\n", "t.csv:2 column 'mean': 'inf' is not a finite number"),
    (b"job,submit,tasks,mean\na,0,1,1e999\n", "t.csv:2 column 'mean': '1e999' is not a finite number"),
    (
        b"job,submit,tasks,mean\na,0,1,1e300\n",
        "t.csv:2 column 'mean': 1e300 s is too large (is the option time_unit right?)",
    ),
    (b"job,submit,tasks,mean\na,0,0,3\n", "t.csv:2 column 'tasks': 0 is not a number of tasks (a whole number from"),
    (b"job,submit,tasks,mean\na,0,1.5,3\n", "t.csv:2 column 'tasks': 1.5 is not a number of tasks (a whole number fro"),
    (
        b"job,submit,tasks,mean\na,0,1000000000,3\n",
        "t.csv:2 column 'tasks': 1000000000 is not a number of tasks (a whole num",
    ),
    (b"job,submit,tasks,mean\na,0,many,3\n", "t.csv:2 column 'tasks': 'many' is not a number"),
    (
        b"job,submit,tasks,mean\na,0,1,3\nb,2024-01-01T00:00:00,1,3\n",
        "t.csv:3 column 'submit': '2024-01-01T00:00:00' is a date, line 2 has a n",
    ),
    (
        b"job,submit,tasks,mean\na,2024-13-01T00:00:00,1,3\n",
        "t.csv:2 column 'submit': '2024-13-01T00:00:00' is neither a number nor a",
    ),
    (b"job,mean,cpu\na,3,-1\n", "t.csv:2 column 'cpu': negative quantity: '-1' (a resource is never below"),
    (b"job,mean,cpu\na,3,two\n", "t.csv:2 column 'cpu': not a quantity: 'two' (write a number such as 4, 5"),
    (b"job,mean,memory\na,3,4gi\n", "t.csv:2 column 'memory': not a quantity: '4gi' (write a number such as 4"),
    (b"job,mean,memory\na,3,inf\n", "t.csv:2 column 'memory': not a quantity: 'inf' (write a number such as 4"),
    (
        b"job,mean,memory\na,3,99999999999Ei\n",
        "t.csv:2 column 'memory': quantity out of range: '99999999999Ei' (2e21 at most)",
    ),
    (b"job,mean,res:\na,3,1\n", "t.csv:1 column 'res:': not a known column (known: job, name, user, app,"),
    (b"job,mean,res:a b\na,3,1\n", "t.csv:1 column 'res:a b': not a known column (known: job, name, user, ap"),
    (b"job,durations\na,3;;4\n", "t.csv:2 column 'durations': run time 2 of 3 is empty"),
    (b"job,durations\na,3;-4\n", "t.csv:2 column 'durations': -4 is negative (a duration is 0 or more)"),
    (b"job,tasks,durations\na,5,3;4\n", "t.csv:2 column 'durations': 2 run times for 5 tasks (give one, or one pe"),
    (b"job,mean,durations\na,3,3\n", "t.csv:2 column 'mean': the row has durations too (give one of the two)"),
    (b"job,mean,durations\na,,\n", "t.csv:2 column 'durations': empty (give durations, or a mean)"),
    (b"job,mean,cov\na,3,-1\n", "t.csv:2 column 'cov': -1 is negative (0 or more)"),
    (b"job,mean,cov\na,3,1e300\n", "t.csv:2 column 'cov': 1e300 is not accepted (lognormal: at most 1000.000"),
    (
        b"job,mean,cov,distribution\na,3,1,weibull\n",
        "t.csv:2 column 'distribution': 'weibull' is not a distribution (lognorma",
    ),
    (
        b"job,mean,cov,distribution\na,3,5,uniform\n",
        "t.csv:2 column 'cov': 5 is not accepted (uniform: at most 0.577, exponen",
    ),
    (
        b"job,mean,cov,distribution\na,3,5,exponential\n",
        "t.csv:2 column 'cov': 5 is not accepted (exponential: at most 1.000, exp",
    ),
    (b"job,stage,parents,mean\na,s,t,3\n", "t.csv:2 column 'parents': job 'a' has no stage 't' (it has: s)"),
    (b"job,stage,parents,mean\na,s,s,3\n", "t.csv:2 column 'parents': job 'a': the stages form a cycle: s"),
    (b"job,stage,parents,mean\na,s,7,3\n", "t.csv:2 column 'parents': job 'a' has no stage '7' (it has: s)"),
    (b"job,stage,parents,mean\na,s,t,3\na,t,s,3\n", "t.csv:2 column 'parents': job 'a': the stages form a cycle: s, t"),
    (b"job,stage,mean\na,s,3\na,s,3\n", "t.csv:3 column 'stage': job 'a' has a stage 's' already, on line 2 (one"),
    (b"job,user,mean\na,x,3\na,y,3\n", "t.csv:3 column 'user': 'y' differs from what line 2 says of the same job"),
    (b"job,weight,mean\na,0,3\n", "t.csv:2 column 'weight': 0 is not a weight (above 0)"),
    (b"job,weight,mean\na,-1,3\n", "t.csv:2 column 'weight': -1 is not a weight (above 0)"),
    (b"job,weight,mean\na,nan,3\n", "t.csv:2 column 'weight': 'nan' is not a finite number"),
    (b"job,mean\n,3\n", "t.csv:2 column 'job': empty (each row names its job)"),
    (
        b"job;mean\na;3\n",
        "t.csv:1: the cells seem to be separated by ';', not by ',' (set the option delimiter: --option 'delimiter=;')",
    ),
    (b"job\tmean\na\t3\n", "t.csv:1: the cells seem to be separated by '\\t', not by ',' (set the option delimiter"),
    (b"job,mean\r\na,-3\r\n", "t.csv:2 column 'mean': -3 is negative (a duration is 0 or more)"),
    (b"\xef\xbb\xbfjob,mean\na,-3\n", "t.csv:2 column 'mean': -3 is negative (a duration is 0 or more)"),
    (
        "job,mean\na,3\n".encode("utf-16-le"),
        "t.csv:1 column 'j\x00o\x00b\x00': not a known column (known: job, name, user, app",
    ),
    (b"job,mean\n\xe4,3\n", "t.csv:2: byte 0xe4 is not UTF-8 text (save the file as UTF-8)"),
    (gzip.compress(b"job,mean\n" + b"a,3\n" * 9999, mtime=0)[:-20], "t.csv: truncated gzip file ("),
    (gzip.compress(b"job,mean\na,-3\n", mtime=0), "t.csv:2 column 'mean': -3 is negative (a duration is 0 or more)"),
    (
        gzip.compress(gzip.compress(b"job,mean\na,3\n", mtime=0), mtime=0),
        "t.csv: is gzip inside gzip: unpack it once (gunzip)",
    ),
    (b"PAR1" + bytes(100), "t.csv: truncated or damaged Parquet file (parquet: File out of specifica"),
    (b"PAR1junkPAR1", "t.csv: truncated or damaged Parquet file (parquet: File out of specifica"),
    (b"PK\x03\x04junk", "t.csv: is a zip archive, or a spreadsheet: take the file out of it, or save the table"),
    (b'[{"job":1}]', "t.csv:1 column '[{\"job\":1}]': not a known column (known: job, name, user"),
    (b"<a/>", "t.csv:1 column '<a/>': not a known column (known: job, name, user, app,"),
    (b"a: 1", "t.csv:1 column 'a: 1': not a known column (known: job, name, user, app,"),
    ("job,mean\na,٣\n".encode(), "t.csv:2 column 'mean': '٣' is not a number"),
    (b"job,mean\na,1_000\n", "t.csv:2 column 'mean': '1_000' is not a number"),
    (b'job,mean\na,"1,5"\n', "t.csv:2 column 'mean': '1,5' is not a number"),
    (b"job,mean\na,0x3\n", "t.csv:2 column 'mean': '0x3' is not a number"),
    (b"job,mean\na,3%\n", "t.csv:2 column 'mean': '3%' is not a number"),
    (b"job,mean,hint\na,3,-1\n", "t.csv:2 column 'hint': -1 is negative (a duration is 0 or more)"),
    (b"job,mean,foo\na,3,x\n", "t.csv:1 column 'foo': not a known column (known: job, name, user, app, q"),
    (b"job,mean\n\n\na,-3\n", "t.csv:4 column 'mean': -3 is negative (a duration is 0 or more)"),
    (b",\na,3\n", "t.csv:1 column 'a': not a known column (known: job, name, user, app, que"),
    (b'job,mean\n"a\nb",-3\n', "t.csv:2 column 'mean': -3 is negative (a duration is 0 or more)"),
    (b"job\na\n", "t.csv:1: there is no column with run times (durations or mean)"),
    (
        b"job,submit,tasks,mean\na,2024-01-01T00:00:00+99:00,1,3\n",
        "t.csv:2 column 'submit': '2024-01-01T00:00:00+99:00' is neither a number",
    ),
    (
        b"job,submit,tasks,mean\na,1e18,1,3\n",
        "t.csv:2 column 'submit': 1e18 s is too large (is the option time_unit ri",
    ),
    (
        b"job,submit,tasks,mean\na,2024-02-30T00:00:00,1,3\n",
        "t.csv:2 column 'submit': '2024-02-30T00:00:00' is neither a number nor a",
    ),
]
#: The document that is `samples.WFFORMAT` after a change -> what is said.
WORKFLOWS: Final[list[tuple[Callable[[str], str], str]]] = [
    (
        lambda text: text.replace('"1.5"', '"1.3"'),
        "flow.json column 'schemaVersion': '1.3' is not read (accepted: 1.4, 1.5, 1.6)",
    ),
    (lambda text: text.replace('"1.5"', "1.5"), "flow.json column 'schemaVersion': Expected `str`, got `float`"),
    (lambda text: text.replace('"schemaVersion"', '"version"'), "Object missing required field `schemaVersion`"),
    (
        lambda text: text.replace('"execution"', '"executed"'),
        "column 'workflow.execution': missing: a workflow that never ran has no run times",
    ),
    (
        lambda text: text.replace('"parents": []', '"parents": ["join_1"]'),
        "flow.json column 'workflow': the stages form a cycle: split_1, map_1, map_2, join_1",
    ),
    (
        lambda text: text.replace('"parents": []', '"parents": ["nobody"]'),
        "column 'workflow.specification.tasks[0].parents[0]': there is no task 'nobody' in the workflow",
    ),
    (
        lambda text: text.replace('"id": "map_1"', '"id": "map_2"'),
        "column 'workflow.specification.tasks[2].id': task 'map_2' is there already",
    ),
    (
        lambda text: text.replace('"inputFiles": [\n      "a.out"', '"inputFiles": [\n      "c.out"'),
        "column 'workflow.specification.tasks[3].inputFiles[0]': there is no file 'c.out' in workflow.specification.f",
    ),
    (
        lambda text: text.replace('"id": "join_1",\n     "runtime', '"id": "join_2",\n     "runtime'),
        "column 'workflow.specification.tasks[3].id': there is no task 'join_1' in workflow.execution.tasks",
    ),
    (
        lambda text: text.replace("3000", "-3000"),
        "column 'workflow.specification.files[1].sizeInBytes': -3000 is not accepted (0 to 1e+15)",
    ),
    (lambda text: text.replace("3000", "NaN"), "flow.json:86: NaN is not a number of JSON (a finite number is need"),
    (lambda text: text.replace("10.5", "-Infinity"), "-Infinity is not a number of JSON (a finite number is needed)"),
    (lambda text: text.replace("3000", '"large"'), "files[1].sizeInBytes': Expected `float`, got `str`"),
    (
        lambda text: text.replace("10.5", "-1"),
        "column 'workflow.execution.tasks[0].runtimeInSeconds': -1 is not accepted (0 to 1e+12 s)",
    ),
    (
        lambda text: text.replace('"coreCount": 2', '"coreCount": 0'),
        "column 'workflow.execution.tasks[0].coreCount': 0 is not accepted (above 0, at most 1,000,000)",
    ),
    (lambda text: text.replace("1048577", "-1"), "tasks[0].memoryInBytes': -1 is not accepted (0 to 1e+15)"),
    (lambda text: text.replace("1200", "0"), "execution.machines[0].cpu.speedInMHz': 0 is not accepted (above 0)"),
    (
        lambda text: text.replace('"nodeName": "worker-1"', '"nodeName": "worker-2"'),
        "column 'workflow.execution.tasks[0].machines': there is no machine 'worker-1' in the list of machines",
    ),
    (lambda text: text[:-30], "flow.json: not JSON, or cut off: Input data was truncated"),
    (lambda text: text.replace('"files": [', '"files" ['), "flow.json:79: not JSON from here on: JSON is malformed"),
    (lambda _: "[]", "flow.json: Expected `object`, got `array`"),
]
EXPORT: Final = """\
JobID,Sub,Start,End,Mem,CPU,Dur
17,2024-03-01T10:00:00,2024-03-01T10:00:05,2024-03-01T10:02:05,2048,2,30
18,2024-03-01T10:00:30,2024-03-01T10:01:00,2024-03-01T10:01:40,512,1,40
"""
#: `--map` for the table above -> what is said.
MAPS: Final = {
    "": "--map: '' is empty",
    "JobID": "'JobID' is not a mapping (write OURS=YOURS, such as submit=SubmitTime)",
    "jobs=JobID,durations=Dur": "e.csv:1 column 'jobs': not a known column (known: job, name, user, app,",
    "job=JobId,durations=Dur": "e.csv:1: there is no column 'JobId' for job (the file has: JobID, Sub, S",
    "job=JobID,job=Sub,durations=Dur": "'job' is mapped twice: from 'JobID' and 'Sub'",
    "job=JobID": "e.csv:1: there is no column with run times (durations or mean)",
    "durations=Dur": "e.csv:1: there is no column 'job'",
    "job=JobID,durations=Dur@fortnight": "e.csv:1: '@fortnight' is no unit of time (ns, us, ms, s, min, h)",
    "job=JobID,durations=Dur,memory=Mem@gi": "e.csv:1: '@gi' is no unit of memory (B, k, K, M, G, T, Ki, Mi, Gi, Ti, k",
    "job=JobID,durations=Start-End": "e.csv:2 column 'Start': '2024-03-01T10:00:05' is before '2024-03-01T10:0",
    "job=JobID,durations=End-": "e.csv:1: there is no column 'End-' for durations (the file has: JobID, S",
    "job=JobID,durations=Dur,submit=Sub@%d/%m/%Y": "e.csv:2 column 'Sub': '2024-03-01T10:00:00' is not a date, as line 2 has",
    "job=JobID,durations=Dur,submit=Sub@%Q": "e.csv:2 column 'Sub': '2024-03-01T10:00:00' is not a date, as line 2 has",
    "job=JobID,durations=Dur,memory=Sub": "e.csv:2 column 'Sub': not a quantity: '2024-03-01T10:00:00' (write a num",
    "job=Job\x00ID,durations=Dur": "e.csv:1: there is no column 'Job\x00ID' for job (the file has: JobID, Sub,",
    "job==,durations=Dur": "e.csv:1: there is no column '=' for job (the file has: JobID, Sub, Start",
    ",,,": "',,,' is not a mapping (write OURS=YOURS, such as submit=SubmitTime)",
    "job=JobID,durations=Dur,res:gpu=CPU@x": "e.csv:1: res:gpu has no unit ('@x')",
    "job=JobID,durations=Dur,tasks=Sub": "e.csv:2 column 'Sub': '2024-03-01T10:00:00' is not a number",
    "job=JobID@s,durations=Dur": "e.csv:1: job has no unit ('@s')",
    "job=JobID,durations=Sub": "e.csv:2 column 'Sub': '2024-03-01T10:00:00' is not a duration such as 1-",
    "job=JobID,durations=Dur,cpu=Sub": "e.csv:2 column 'Sub': not a quantity: '2024-03-01T10:00:00' (write a num",
    "job=JobID,durations=Dur-Dur-Dur": "e.csv:1: there is no column 'Dur-Dur-Dur' for durations (the file has: J",
    "job=JobID,durations=Dur,weight=Sub": "e.csv:2 column 'Sub': '2024-03-01T10:00:00' is not a number",
    "durations=Dur,JobID=job": "e.csv:1: there is no column 'job' for JobID (the file has: JobID, Sub, S",
}
#: A file for `--map-file` -> what is said.
MAP_FILES: Final = {
    b"[": "m.yaml: not a mapping: one line per column is needed, such as 'submit: S",
    b"": "m.yaml: the file is empty",
    b"- a": "m.yaml: not a mapping: one line per column is needed, such as 'submit: S",
    b"job: 3": "m.yaml: not a mapping: one line per column is needed, such as 'submit: S",
    b"map: {job: 3}": "m.yaml: not a mapping: one line per column is needed, such as 'submit: S",
    b"\xff\xfe": "m.yaml:1: byte 0xff is not UTF-8 text (save the file as UTF-8)",
    b"jobs: JobID": "m.yaml: column 'jobs': not a known column (known: job, name, user, app,",
}
ARABIC: Final = str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")
#: What is done to a sample of a format.
DAMAGES: Final[dict[str, Callable[[str], str | bytes]]] = {
    "UTF-16": lambda text: text.encode("utf-16-le"),
    "NUL in the middle": lambda text: text.replace(text[len(text) // 2], "\0", 1),
    "half": lambda text: text[: len(text) // 2],
    "four hundred nines": lambda text: re.sub(r"\d{3,}", "9" * 400, text),
    "arabic digits": lambda text: text.translate(ARABIC),
    "nan": lambda text: re.sub(r"(?<=[,| :])\d+(?=[,| }])", "nan", text),
    "minus": lambda text: re.sub(r"(?<![\w.-])(\d{2,})", r"-\1", text),
    "quotes": lambda text: text.replace("|", '"').replace(",", ',"', 1),
}
#: Format, damage -> what is said.
DAMAGED: Final = {
    ("swf", "UTF-16"): "log.swf:2: 3 numbers, but a job has 18",
    ("swf", "NUL in the middle"): "log.swf:3 column 'job number': '\x00' is not a number",
    ("swf", "half"): "log.swf:5: 6 numbers, but a job has 18",
    ("swf", "four hundred nines"): "log.swf:3 column 'used memory': '999999999999999999999999999999999999999",
    ("swf", "arabic digits"): "log.swf:3 column 'job number': '١' is not a number",
    ("swf", "nan"): "log.swf:3 column 'status': 'nan' is not a finite number",
    ("swf", "minus"): "log.swf:3 column 'run time': -60 is below -1",
    ("sacct", "UTF-16"): "sacct.txt:1: there is no column 'JobID' or 'JobIDRaw' (the header line h",
    ("sacct", "NUL in the middle"): "sacct.txt:2 column 'Submit': '\x00024-03-01T10:00:00' is neither a number n",
    ("sacct", "half"): "sacct.txt:7: 1 cells, but the header has 12",
    ("sacct", "four hundred nines"): "sacct.txt:2 column 'JobID': '9999999999999999999999999999999999999999...",
    ("sacct", "arabic digits"): "sacct.txt:2 column 'AllocTRES': '٨' is not a number",
    ("sacct", "nan"): "sacct.txt:2 column 'Elapsed': '1-02:03:nan' is not a duration such as 1-",
    ("sacct", "minus"): "sacct.txt:2 column 'JobID': '-100' is not a job's id",
    ("sacct", "quotes"): "sacct.txt:1: there is no column 'JobID' or 'JobIDRaw' (the header line h",
    ("yarn_apps", "UTF-16"): "apps.json: not JSON, or cut off: JSON is malformed: object keys must be",
    ("yarn_apps", "NUL in the middle"): "apps.json: not JSON, or cut off: JSON is malformed: invalid character (b",
    ("yarn_apps", "half"): "apps.json: not JSON, or cut off: Input data was truncated",
    ("yarn_apps", "four hundred nines"): "apps.json:1 column 'startedTime': Expected `int` <= 1000000000000000",
    ("yarn_apps", "arabic digits"): "apps.json: not JSON, or cut off: JSON is malformed: invalid character (b",
    ("yarn_apps", "nan"): "apps.json: not JSON, or cut off: JSON is malformed: invalid character (b",
    ("yarn_apps", "minus"): "apps.json:1 column 'startedTime': Expected `int` >= 0",
    ("yarn_apps", "quotes"): "apps.json: not JSON, or cut off: JSON is malformed: expected ':' (byte 61)",
    ("google2011", "UTF-16"): "part-00000-of-00500.csv:1 column 'event type': '\x000\x00' is not a type of ev",
    ("google2011", "half"): "part-00000-of-00500.csv:7: 3 columns, but task events have 13",
    ("google2011", "four hundred nines"): "part-00000-of-00500.csv:1 column 'time': '999999999999999999999999999999",
    ("google2011", "arabic digits"): "part-00000-of-00500.csv:1 column 'event type': '٠' is not a type of even",
    ("google2011", "nan"): "part-00000-of-00500.csv:1 column 'event type': 'nan' is not a type of ev",
    ("google2011", "minus"): "part-00000-of-00500.csv:1 column 'time': -600000000 is negative",
    ("google2011", "quotes"): "part-00000-of-00500.csv:1: not CSV from here on: unexpected end of data",
    (
        "google2019",
        "UTF-16",
    ): 'instance_events.json:1: \'{\x00"\x00t\x00i\x00m\x00e\x00"\x00:\x00 \x00"\x007\x000\x000\x000\x000\x000\x000\x000\x000\x00"\x00...\': J',
    (
        "google2019",
        "NUL in the middle",
    ): 'instance_events.json:1: \'{"time"\x00 "700000000", "type": 0, "collec...\': J',
    ("google2019", "half"): "instance_events.json:5: '{\"time\"': Input data was truncated",
    ("google2019", "four hundred nines"): "instance_events.json:1 column 'time': '999999999999999999999999999999999",
    ("google2019", "arabic digits"): 'instance_events.json:1: \'{"time": "٧٠٠٠٠٠٠٠٠", "type": ٠, "collec...\': J',
    ("google2019", "nan"): 'instance_events.json:1: \'{"time": "700000000", "type": nan, "coll...\': J',
    ("google2019", "minus"): "instance_events.json:1 column 'time': -700000000 is negative",
    ("google2019", "quotes"): 'instance_events.json:1: \'{"time": "700000000"," "type": 0, "colle...\': J',
    ("openb", "UTF-16"): "pods.csv:1: there is no column 'name' (the header line has: n\x00a\x00m\x00e\x00, \x00c",
    ("openb", "NUL in the middle"): "pods.csv:2 column 'memory_mib': '3\x007680' is not a number",
    ("openb", "half"): "pods.csv:3: 1 cells, but the header has 11",
    ("openb", "four hundred nines"): "pods.csv:2 column 'cpu_milli': '9999999999999999999999999999999999999999",
    ("openb", "arabic digits"): "pods.csv:2 column 'cpu_milli': '٨٨٠٠٠' is not a number",
    ("openb", "nan"): "pods.csv:2 column 'cpu_milli': 'nan' is not a finite number",
    ("openb", "minus"): "pods.csv:2 column 'cpu_milli': -88000 is negative",
    ("openb", "quotes"): "pods.csv:1: not CSV from here on: ',' expected after '\"'",
    ("pods", "UTF-16"): "pods.json: not JSON, or cut off: JSON is malformed: object keys must be",
    ("pods", "NUL in the middle"): "pods.json: not JSON, or cut off: JSON is malformed: object keys must be",
    ("pods", "half"): "pods.json: not JSON, or cut off: Input data was truncated",
    ("pods", "four hundred nines"): "pods.json:1 column 'startedAt': '999999999999999999999999999999999999999",
    ("pods", "arabic digits"): "pods.json: not JSON, or cut off: JSON is malformed: invalid character (b",
    ("pods", "nan"): "pods.json: not JSON, or cut off: JSON is malformed: invalid character (b",
    ("pods", "minus"): "pods.json:1 column 'startedAt': '-2024-03-01T10:-00:-05Z' is neither a n",
    ("pods", "quotes"): "pods.json: not JSON, or cut off: JSON is malformed: invalid character (b",
}
#: A row of Alibaba's batch_task of 2018 -> what is said.
BATCH_TASKS: Final = {
    "a,b\n": "batch_task.csv:1: 2 columns, but there should be 9: task_name, instance_",
    "M1,1,j_1,1,Terminated,300,200,100,0.5\n": "batch_task.csv: no finished job is left (stages left out, they end befor",
    "M1,x,j_1,1,Terminated,100,200,100,0.5\n": "batch_task.csv:1 column 'instance_num': 'x' is not a whole number",
    "M1,1,j_1,1,Terminated,nan,200,100,0.5\n": "batch_task.csv:1 column 'start_time': 'nan' is not a whole number",
    "M1,99999999999999999999,j_1,1,Terminated,100,200,100,0.5\n": "batch_task.csv:1 column 'instance_num': '99999999999999999999' is too large",
    "M1,1,j_1,1,Terminated,100,200,-100,0.5\n": "batch_task.csv: no finished job is left (finished stages left out, no de",
    "M1,1,j_1,1,Weird,100,200,100,0.5\n": "batch_task.csv: no finished job is left (stages left out, status Weird: 1)",
    "M1,1,,1,Terminated,100,200,100,0.5\n": "batch_task.csv: no finished job is left (finished stages left out, no de",
    "M1,0,j_1,1,Terminated,100,200,100,0.5\n": "batch_task.csv: no finished job is left (finished stages left out, no de",
    "M1,1,j_1,1,Running,100,,100,0.5\n": "batch_task.csv: no finished job is left (stages left out, status Running: 1)",
    "M1,1,j_1,1,Terminated,100,200,inf,0.5\n": "batch_task.csv:1 column 'plan_cpu': 'inf' is not a number",
    "M1,1,j_1,1,Terminated,100,1000000000000000000,100,0.5\n": "batch_task.csv:1 column 'end_time': '1000000000000000000' is too large",
    "M1,1,j_1,1,Terminated,100,200,100,-3\n": "batch_task.csv: no finished job is left (finished stages left out, no de",
    "M1,99999999,j_1,1,Terminated,100,200,100,0.5\n": "batch_task.csv: no finished job is left (finished stages left out, no de",
    "M1,1,j_1,1,Terminated,100,200,100,1e300\n": "batch_task.csv:1 column 'plan_mem': '1e300' is too large",
}


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(("table", "says"), TABLES, ids=[repr(row[0][-30:]) for row in TABLES])
def test_a_bad_table(refused: Refused, tmp_path: Path, table: bytes, says: str) -> None:
    (tmp_path / "t.csv").write_bytes(table)
    assert says in refused("convert", "csv", "t.csv", "o")
    assert left(tmp_path) == ["t.csv"]


@pytest.mark.parametrize("mapping", MAPS, ids=repr)
def test_a_bad_mapping(refused: Refused, tmp_path: Path, mapping: str) -> None:
    (tmp_path / "e.csv").write_text(EXPORT)
    assert MAPS[mapping] in refused("convert", "csv", "e.csv", "o", "--map", mapping)
    assert left(tmp_path) == ["e.csv"]


@pytest.mark.parametrize("mapping", MAP_FILES, ids=repr)
def test_a_bad_file_of_a_mapping(refused: Refused, tmp_path: Path, mapping: bytes) -> None:
    (tmp_path / "e.csv").write_text(EXPORT)
    (tmp_path / "m.yaml").write_bytes(mapping)
    assert MAP_FILES[mapping] in refused("convert", "csv", "e.csv", "o", "--map-file", "m.yaml")


@pytest.mark.parametrize(("name", "damage"), DAMAGED)
def test_a_damaged_trace(refused: Refused, tmp_path: Path, name: str, damage: str) -> None:
    file, text = samples.FILES[name]
    damaged = DAMAGES[damage](text)
    (tmp_path / file).write_bytes(damaged if isinstance(damaged, bytes) else damaged.encode())
    assert DAMAGED[name, damage] in refused("convert", name, file, "o")
    assert left(tmp_path) == [file]


@pytest.mark.parametrize(("change", "says"), WORKFLOWS, ids=range(len(WORKFLOWS)))
def test_a_bad_workflow(refused: Refused, tmp_path: Path, change: Callable[[str], str], says: str) -> None:
    assert change(samples.WFFORMAT) != samples.WFFORMAT
    (tmp_path / "flow.json").write_text(change(samples.WFFORMAT))
    assert says in refused("convert", "wfformat", "flow.json", "o")
    assert left(tmp_path) == ["flow.json"]


@pytest.mark.parametrize("row", BATCH_TASKS)
def test_a_bad_batch_task(refused: Refused, tmp_path: Path, row: str) -> None:
    (tmp_path / "batch_task.csv").write_text(row)
    assert BATCH_TASKS[row] in refused("convert", "alibaba2018", "batch_task.csv", "o")


def test_a_table_that_unpacks_to_hundreds_of_megabytes(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(gzip.compress(b"job,mean\n" + b"a" * 60_000_000))
    assert "no table packs like that" in refused("convert", "csv", "t.csv", "o")


def test_a_mapping_is_not_written_over_a_file(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text(EXPORT)
    (tmp_path / "m.yaml").write_text("mine")
    mapping = "job=JobID,durations=Dur"
    assert "is there already" in refused("convert", "csv", "e.csv", "o", "--map", mapping, "--map-file", "m.yaml")
    assert (tmp_path / "m.yaml").read_text() == "mine"


def _zipped(data: bytes) -> bytes:
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w") as archive:
        archive.writestr("t.csv", data)
    return into.getvalue()


_TABLE: Final = b"job,submit,tasks,mean\na,0,1,3\n"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (_zipped(_TABLE), "t.csv: is a zip archive, or a spreadsheet: take the file out of it"),
        (gzip.compress(gzip.compress(_TABLE)), "t.csv: is gzip inside gzip: unpack it once (gunzip)"),
        (bz2.compress(_TABLE), "t.csv: is packed by bzip2"),
        (lzma.compress(_TABLE), "t.csv: is packed by xz"),
        (_TABLE.replace(b",", b";"), "separated by ';', not by ',' (set the option delimiter: --option 'delimiter=;')"),
    ],
    ids=["zip", "gzip twice", "bzip2", "xz", "semicolons"],
)
@pytest.mark.parametrize("options", [(), ("--format", "csv")], ids=["guessed", "named"])
def test_a_table_in_another_dress(
    refused: Refused, tmp_path: Path, data: bytes, says: str, options: tuple[str, ...]
) -> None:
    (tmp_path / "t.csv").write_bytes(data)
    assert says in refused("traces", "describe", "t.csv", *options)


def test_bad_rows_among_good_ones_name_the_option_that_leaves_them_out(refused: Refused, tmp_path: Path) -> None:
    rows = "M1,1,j,1,Terminated,10,20,100,0.5\nR2_1,1,j,1,Terminated,nan,30,nan,0.5\n"
    (tmp_path / "t.csv").write_text(rows)
    said = refused("traces", "describe", "t.csv", "--format", "alibaba2018").splitlines()
    assert said[0].startswith("t.csv:2 column 'start_time': 'nan' is not a whole number")
    assert said[-1].startswith("--skip-bad-rows leaves out rows that cannot be read")
    (tmp_path / "t.csv").write_text(rows.splitlines()[1])
    assert "--skip-bad-rows" not in refused("traces", "describe", "t.csv", "--format", "alibaba2018")
