# ruff: noqa: RUF001 (digits that are none here)
"""Scenario files with one bad value each: exit code 2, and a line that names the place and what is accepted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

Refused = Callable[..., str]
GOOD: Final = """\
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {name: small}
spec:
  seeds: [1]
  cluster: {nodes: [{count: 2, capacity: {cpu: 2, memory: 4Gi}}]}
  workload:
    kind: jobs
    jobs:
    - name: a
      user: ann
      stages: [{name: m, tasks: 2, demand: {cpu: 1}, duration: 3s}]
  policies:
  - {kind: fifo}
"""
WORKLOAD: Final = GOOD[GOOD.index("  workload:") : GOOD.index("  policies:")]

#: What is replaced, by what, and what is said of it: line, column, path, mistake.
ROWS: Final = [
    ("tasks: 2", "tasks: !!int two", "12:33: not YAML: 'two' is not !!int"),
    ("tasks: 2", "tasks: !!float two", "12:33: not YAML: 'two' is not !!float"),
    ("tasks: 2", "tasks: !!bool two", "12:33: not YAML: 'two' is not !!bool"),
    ("tasks: 2", "tasks: !!timestamp 2001-99-99", "12:33: not YAML: '2001-99-99' is not !!timestamp"),
    (
        "tasks: 2",
        'tasks: !!binary "?"',
        "12:33 spec.workload.jobs[0].stages[0].tasks: b'' is not accepted (expected a whole number)",
    ),
    (
        "tasks: 2",
        "tasks: !!int [1]",
        "12:33: not YAML: [ScalarNode(tag='tag:yaml.org,2002:int', value='1')] is not !!int",
    ),
    (
        "tasks: 2",
        "tasks: !!set {a}",
        "12:33 spec.workload.jobs[0].stages[0].tasks: {'a'} is not accepted (expected a whole nu",
    ),
    ("tasks: 2", "tasks: !own 2", "12:33: not accepted: '!own', remove the tag"),
    (
        "tasks: 2",
        "tasks: !!str 2",
        "12:33 spec.workload.jobs[0].stages[0].tasks: '2' is not accepted (expected a whole number)",
    ),
    (
        "tasks: 2",
        "tasks: 0xzz",
        "12:33 spec.workload.jobs[0].stages[0].tasks: '0xzz' is not accepted (expected a whole number)",
    ),
    (
        "tasks: 2",
        "tasks: 0o9",
        "12:33 spec.workload.jobs[0].stages[0].tasks: '0o9' is not accepted (expected a whole number)",
    ),
    (
        "tasks: 2",
        "tasks: 2024-01-01",
        "12:33 spec.workload.jobs[0].stages[0].tasks: '2024-01-01' is not accepted (expected a whole",
    ),
    (
        "tasks: 2",
        "tasks: true",
        "12:33 spec.workload.jobs[0].stages[0].tasks: true is not accepted (expected a whole number)",
    ),
    (
        "tasks: 2",
        "tasks: ٢",
        "12:33 spec.workload.jobs[0].stages[0].tasks: '٢' is not accepted (expected a whole number)",
    ),
    (
        "tasks: 2",
        "tasks: 2.5",
        "12:33 spec.workload.jobs[0].stages[0].tasks: 2.5 is not accepted (expected a whole number)",
    ),
    (
        "tasks: 2",
        'tasks: "2"',
        "12:33 spec.workload.jobs[0].stages[0].tasks: '2' is not accepted (expected a whole number)",
    ),
    (
        "tasks: 2",
        "tasks: null",
        "12:33 spec.workload.jobs[0].stages[0].tasks: null is not accepted (expected a whole number)",
    ),
    (
        "tasks: 2",
        "tasks: " + "9" * 90,
        "12:33 spec.workload.jobs[0].stages[0].tasks: 99999999999999999999999999999999999999999999999",
    ),
    ("tasks: 2", "tasks: " + "9" * 5000, "12:33: not YAML: a number of too many digits"),
    (
        "tasks: 2",
        "tasks: [2]",
        "12:33 spec.workload.jobs[0].stages[0].tasks: a list is not accepted (expected a whole number)",
    ),
    (
        "tasks: 2",
        "tasks: .nan",
        "12:33 spec.workload.jobs[0].stages[0].tasks: nan is not accepted (expected a whole number)",
    ),
    (
        "tasks: 2",
        "tasks: 1000000000",
        "12:33 spec.workload.jobs[0].stages[0].tasks: 1000000000 is not accepted (expected at most 10",
    ),
    ("tasks: 2", "tasks: -0", "12:33 spec.workload.jobs[0].stages[0].tasks: 0 is not accepted (expected at least 1)"),
    (
        "duration: 3s",
        "duration: 1:30",
        "12:64 spec.workload.jobs[0].stages[0].duration: unknown unit '' in duration '1:30' (units: m",
    ),
    (
        "duration: 3s",
        "duration: ٣s",
        "12:64 spec.workload.jobs[0].stages[0].duration: not a duration: '٣s' (write a number of seco",
    ),
    (
        "duration: 3s",
        "duration: inf",
        "12:64 spec.workload.jobs[0].stages[0].duration: not a duration: 'inf' (write a number of sec",
    ),
    (
        "duration: 3s",
        "duration: 1e400s",
        "12:64 spec.workload.jobs[0].stages[0].duration: duration out of range: '1e400s' (at most 115",
    ),
    (
        "duration: 3s",
        "duration: 99999999999999999999h",
        "12:64 spec.workload.jobs[0].stages[0].duration: duration out of range: '99999999999999999999",
    ),
    (
        "duration: 3s",
        "duration: [3s]",
        "12:64 spec.workload.jobs[0].stages[0].duration: 1 durations for 2 tasks (expected one per task)",
    ),
    ("duration: 3s", "duration: {mean: 3s}", "12:64 spec.workload.jobs[0].stages[0].duration.kind: 'kind' is missing"),
    (
        "duration: 3s",
        "duration: {kind: weird, mean: 3s}",
        "12:71 spec.workload.jobs[0].stages[0].duration.kind: 'weird' is not accepted (expected 'logn",
    ),
    (
        "duration: 3s",
        "duration: {kind: lognormal, mean: 3s, cov: -1}",
        "12:97 spec.workload.jobs[0].stages[0].duration.cov: -1 is not accepted (expected at least 0.0)",
    ),
    (
        "duration: 3s",
        "duration: {kind: lognormal, mean: 3s, cov: .inf}",
        "12:97 spec.workload.jobs[0].stages[0].duration.cov: inf is not accepted (expected a finite n",
    ),
    (
        "duration: 3s",
        "duration: {kind: gamma, mean: 3s, cov: 1e300}",
        "12:93 spec.workload.jobs[0].stages[0].duration.cov: 1e+300 is not accepted (expected at most",
    ),
    (
        "duration: 3s",
        "duration: {kind: uniform, mean: 3s, cov: 1}",
        "12:64 spec.workload.jobs[0].stages[0].duration: cov 1: a uniform distribution above zero has",
    ),
    (
        "duration: 3s",
        "duration: {kind: exponential, mean: 3s, cov: 3}",
        "12:64 spec.workload.jobs[0].stages[0].duration: cov 3: that of an exponential distribution is 1",
    ),
    (
        "duration: 3s",
        "duration: {kind: normal, mean: 1e12h, cov: 0.1}",
        "12:85 spec.workload.jobs[0].stages[0].duration.mean: duration out of range: '1e12h' (at most",
    ),
    (
        "duration: 3s",
        "duration: {kind: normal, mean: 0s, cov: 0.1}",
        "12:85 spec.workload.jobs[0].stages[0].duration.mean: is 0: expected a duration above zero",
    ),
    (
        "duration: 3s",
        "duration: true",
        "12:64 spec.workload.jobs[0].stages[0].duration: not a duration: True (write a number of seco",
    ),
    (
        "duration: 3s",
        "duration: 3 parsecs",
        "12:64 spec.workload.jobs[0].stages[0].duration: unknown unit 'parsecs' in duration '3 parsec",
    ),
    (
        "duration: 3s",
        "duration: 3s2",
        "12:64 spec.workload.jobs[0].stages[0].duration: unknown unit '' in duration '3s2' (units: ms",
    ),
    (
        "duration: 3s",
        'duration: "1,5s"',
        "12:64 spec.workload.jobs[0].stages[0].duration: unknown unit '' in duration '1,5s' (units: m",
    ),
    (
        "memory: 4Gi",
        "memory: -4Gi",
        "6:59 spec.cluster.nodes[0].capacity.memory: negative quantity: '-4Gi' (a resource is never b",
    ),
    (
        "memory: 4Gi",
        "memory: 4gi",
        "6:59 spec.cluster.nodes[0].capacity.memory: not a quantity: '4gi' (write a number such as 4,",
    ),
    (
        "memory: 4Gi",
        "memory: true",
        "6:59 spec.cluster.nodes[0].capacity.memory: not a quantity: True (write a number such as 4,",
    ),
    (
        "memory: 4Gi",
        "memory: ４Gi",
        "6:59 spec.cluster.nodes[0].capacity.memory: not a quantity: '４Gi' (write a number such as 4,",
    ),
    (
        "memory: 4Gi",
        "memory: 99999999Ei",
        "6:59 spec.cluster.nodes[0].capacity.memory: quantity out of range: '99999999Ei' (2e21 at most)",
    ),
    (
        "cpu: 1}",
        "cpu: .nan}",
        "12:50 spec.workload.jobs[0].stages[0].demand.cpu: not a quantity: nan (write a number such a",
    ),
    (
        "cpu: 1}",
        "cpu: .inf}",
        "12:50 spec.workload.jobs[0].stages[0].demand.cpu: not a quantity: inf (write a number such a",
    ),
    (
        "cpu: 1}",
        "cpu: true}",
        "12:50 spec.workload.jobs[0].stages[0].demand.cpu: not a quantity: True (write a number such",
    ),
    (
        "cpu: 1}",
        "cpu: null}",
        "12:50 spec.workload.jobs[0].stages[0].demand.cpu: not a quantity: None (write a number such",
    ),
    (
        "cpu: 1}",
        "cpu: [1]}",
        "12:50 spec.workload.jobs[0].stages[0].demand.cpu: not a quantity: [1] (write a number such a",
    ),
    (
        "cpu: 1}",
        "cpu: '²'}",
        "12:50 spec.workload.jobs[0].stages[0].demand.cpu: not a quantity: '²' (write a number such a",
    ),
    (
        "memory: 4Gi",
        "'': 4",
        "6:51 spec.cluster.nodes[0].capacity[\"\"]: key '' is not accepted (expected letters, digits, '",
    ),
    (
        "memory: 4Gi",
        "'a b': 4",
        "6:51 spec.cluster.nodes[0].capacity[\"a b\"]: key 'a b' is not accepted (expected letters, dig",
    ),
    ("memory: 4Gi", '"a\\nb": 4', '6:51 spec.cluster.nodes[0].capacity["a'),
    (
        "memory: 4Gi",
        "1: 4",
        "6:51 spec.cluster.nodes[0].capacity[1]: key 1 is not accepted (expected text (put it in quotes))",
    ),
    (
        "memory: 4Gi",
        "null: 4",
        "6:42 spec.cluster.nodes[0].capacity.None: key null is not accepted (expected text (put it in",
    ),
    (
        "memory: 4Gi",
        "true: 4",
        "6:42 spec.cluster.nodes[0].capacity[1]: key true is not accepted (expected text (put it in q",
    ),
    (
        "memory: 4Gi",
        ".nan: 4",
        "6:42 spec.cluster.nodes[0].capacity.nan: key nan is not accepted (expected text (put it in q",
    ),
    ("memory: 4Gi", "[a]: 4", "6:51: not YAML: found unhashable key (while constructing a mapping, begun in line 6)"),
    (
        "memory: 4Gi",
        "gpu/: 4",
        "6:51 spec.cluster.nodes[0].capacity[\"gpu/\"]: key 'gpu/' is not accepted (expected letters, d",
    ),
    (
        "name: small",
        "name: ..",
        "3:18 metadata.name: '..' is not accepted (expected letters, digits, '-' and '_', beginning w",
    ),
    ("name: small", "name: null", "3:18 metadata.name: null is not accepted (expected text (put it in quotes))"),
    ("name: small", "name: 3", "3:18 metadata.name: 3 is not accepted (expected text (put it in quotes))"),
    (
        "name: small",
        "name: a/b",
        "3:18 metadata.name: 'a/b' is not accepted (expected letters, digits, '-' and '_', beginning",
    ),
    (
        "name: small",
        "name: " + "x" * 300,
        "3:18 metadata.name: 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx... is not acce",
    ),
    (
        "name: small",
        'name: "a\\0b"',
        "3:18 metadata.name: 'a\\x00b' is not accepted (expected letters, digits, '-' and '_', beginni",
    ),
    (
        "name: small",
        'name: "a\\u202eb"',
        "3:18 metadata.name: 'a\\u202eb' is not accepted (expected letters, digits, '-' and '_', begin",
    ),
    (
        "name: small",
        'name: "\\ud800"',
        "3:21: not YAML: found invalid Unicode character escape code (while parsing a quoted scalar,",
    ),
    (
        "name: small",
        "name: !!timestamp 2024-01-01",
        "3:18 metadata.name: datetime.date(2024, 1, 1) is not accepted (expected text (put it in quotes))",
    ),
    (
        "- name: a",
        "- name: null",
        "10:13 spec.workload.jobs[0].name: null is not accepted (expected text (put it in quotes))",
    ),
    (
        "- name: a",
        "- name: 7",
        "10:13 spec.workload.jobs[0].name: 7 is not accepted (expected text (put it in quotes))",
    ),
    (
        "- name: a",
        "- name: [a]",
        "10:13 spec.workload.jobs[0].name: a list is not accepted (expected text (put it in quotes))",
    ),
    ("- name: a", "- name: ''", "10:13 spec.workload.jobs[0].name: '' is not accepted (expected some text)"),
    (
        "user: ann",
        "submit: -1s",
        "11:15 spec.workload.jobs[0].submit: negative duration: '-1s' (a duration is never below zero)",
    ),
    (
        "user: ann",
        "submit: 1e18s",
        "11:15 spec.workload.jobs[0].submit: duration out of range: '1e18s' (at most 11574074 days)",
    ),
    (
        "user: ann",
        "submit: 2024-01-01",
        "11:15 spec.workload.jobs[0].submit: unknown unit '' in duration '2024-01-01' (units: ms, s,",
    ),
    ("user: ann", "weight: 0", "11:15 spec.workload.jobs[0].weight: 0 is not accepted (expected at least 1e-06)"),
    ("user: ann", "weight: .nan", "11:15 spec.workload.jobs[0].weight: nan is not accepted (expected a finite number)"),
    ("user: ann", "weight: true", "11:15 spec.workload.jobs[0].weight: true is not accepted (expected a number)"),
    (
        "user: ann",
        "user: [ann]",
        "11:13 spec.workload.jobs[0].user: a list is not accepted (expected text (put it in quotes))",
    ),
    (
        "user: ann",
        "queue: null",
        "11:14 spec.workload.jobs[0].queue: null is not accepted (expected text (put it in quotes))",
    ),
    (
        "user: ann",
        "usr: ann",
        "11:7 spec.workload.jobs[0].usr: unknown key 'usr' (accepted: name, user, app, queue, wei",
    ),
    (
        "stages: [{name: m,",
        "stages: [{name: m, tasks: 1, demand: {cpu: 1}, duration: 1s}, {name: m,",
        "12:76 spec.workload.jobs[0].stages[1].name: two stages of this job are called 'm'",
    ),
    (
        "stages: [{name: m,",
        "stages: [{name: n, parents: [m], tasks: 1, demand: {cpu: 1}, duration: 1s}, {parents: [n], name: m,",
        "12:15 spec.workload.jobs[0].stages: the stages form a cycle: n, m",
    ),
    (
        "stages: [{name: m,",
        "stages: [{parents: [m], name: m,",
        "12:15 spec.workload.jobs[0].stages: the stages form a cycle: m",
    ),
    (
        "stages: [{name: m,",
        "stages: [{parents: [x], name: m,",
        "12:27 spec.workload.jobs[0].stages[0].parents[0]: no stage 'x' in this job (stages: m)",
    ),
    (
        "stages: [{name: m,",
        "stages: [{parents: n, name: m,",
        "12:26 spec.workload.jobs[0].stages[0].parents: 'n' is not accepted (expected a list)",
    ),
    (
        "stages: [{name: m,",
        "stages: [{gang: yes, name: m,",
        "12:23 spec.workload.jobs[0].stages[0].gang: 'yes' is not accepted (expected true or false)",
    ),
    (
        "stages: [{name: m,",
        "stages: [{places: {x: y}, name: m,",
        "12:26 spec.workload.jobs[0].stages[0].places.x: unknown key 'x' (accepted: terms, tolerations)",
    ),
    (
        "stages: [{name: m,",
        "stages: [{hosts: [[n1], [nowhere]], name: m,",
        "8:5 spec.workload: job 'a' stage 'm' has input on 'nowhere', which is not a node",
    ),
    # edges, links, times by node
    (
        "stages: [{name: m,",
        "stages: [{parents: [{stage: x, data: 1Gi}], name: m,",
        "12:27 spec.workload.jobs[0].stages[0].parents[0]: no stage 'x' in this job (stages: m)",
    ),
    (
        "stages: [{name: m,",
        "stages: [{name: n, demand: {cpu: 1}, duration: 1s}, {parents: [n, {stage: n, data: 1}], name: m,",
        "12:73 spec.workload.jobs[0].stages[1].parents[1]: a second edge to stage 'n' (expected one at most)",
    ),
    (
        "stages: [{name: m,",
        "stages: [{name: n, demand: {cpu: 1}, duration: 1s}, {parents: [{stage: n, data: -5}], name: m,",
        "12:87 spec.workload.jobs[0].stages[1].parents[0].data: not a number of bytes: -5 (write bytes such as 1000,",
    ),
    (
        "stages: [{name: m,",
        "stages: [{name: n, demand: {cpu: 1}, duration: 1s}, {parents: [{stage: n, data: .nan}], name: m,",
        "12:87 spec.workload.jobs[0].stages[1].parents[0].data: not a number of bytes: nan (write bytes such as 1000,",
    ),
    (
        "stages: [{name: m,",
        "stages: [{name: n, demand: {cpu: 1}, duration: 1s}, {parents: [{stage: n, data: 120mib}], name: m,",
        "12:87 spec.workload.jobs[0].stages[1].parents[0].data: not a number of bytes: '120mib' (write bytes such as",
    ),
    (
        "stages: [{name: m,",
        "stages: [{name: n, demand: {cpu: 1}, duration: 1s}, {parents: [{stage: n, data: 10E}], name: m,",
        "12:87 spec.workload.jobs[0].stages[1].parents[0].data: 10E is not accepted (expected bytes from 0 to 1e+18)",
    ),
    (
        "stages: [{name: m,",
        "stages: [{name: n, demand: {cpu: 1}, duration: 1s}, {parents: [{stage: n, bytes: 1}], name: m,",
        "12:81 spec.workload.jobs[0].stages[1].parents[0].bytes: unknown key 'bytes' (accepted: stage, kind,",
    ),
    (
        "stages: [{name: m,",
        "stages: [{name: n, demand: {cpu: 1}, duration: 1s}, {parents: [{stage: n, kind: one2one}], name: m,",
        "12:87 spec.workload.jobs[0].stages[1].parents[0].kind: 'one2one' is not accepted (expected 'barrier' or",
    ),
    (
        "stages: [{name: m,",
        "stages: [{name: n, demand: {cpu: 1}, duration: 1s}, {parents: [{stage: n, share: 1}], name: m,",
        "12:88 spec.workload.jobs[0].stages[1].parents[0].share: 1 is not accepted (expected a number below 1.0)",
    ),
    (
        "stages: [{name: m,",
        "stages: [{name: n, demand: {cpu: 1}, duration: 1s}, {parents: [{stage: n, share: 0}], name: m,",
        "12:88 spec.workload.jobs[0].stages[1].parents[0].share: 0 is not accepted (expected a number above 0",
    ),
    (
        "stages: [{name: m,",
        "stages: [{name: n, demand: {cpu: 1}, duration: 1s}, "
        "{parents: [{stage: n, share: 0.5, kind: one_to_one}], name: m,",
        "12:99 spec.workload.jobs[0].stages[1].parents[0].kind: 'one_to_one' does not go with a share (expected",
    ),
    (
        "stages: [{name: m,",
        "stages: [{name: n, tasks: 7, demand: {cpu: 1}, duration: 1s}, "
        "{parents: [{stage: n, kind: one_to_one}], name: m,",
        "12:80 spec.workload.jobs[0].stages[1].parents[0]: stage 'm' has an edge to 'n' of kind one_to_one, but",
    ),
    (
        "stages: [{name: m,",
        "stages: [{name: n, demand: {cpu: 1}, duration: 1s}, {parents: [{stage: n, share: 0.5}], gang: true, name: m,",
        "12:70 spec.workload.jobs[0].stages[1].parents[0]: stage 'm' has an edge to 'n' of kind share, but is a gang",
    ),
    (
        "stages: [{name: m,",
        "stages: [{name: n, demand: {cpu: 1}, duration: 1s}, {parents: [{stage: n, share: 0.5, data: 1Ki}], name: m,",
        "12:70 spec.workload.jobs[0].stages[1].parents[0]: stage 'm' has an edge to 'n' of kind share, but takes",
    ),
    (
        "cluster: {nodes",
        "cluster: {links: {rate: 0}, nodes",
        "6:27 spec.cluster.links.rate: 0 is not accepted (expected bytes per second from 1 to 1e+18)",
    ),
    (
        "cluster: {nodes",
        "cluster: {links: {in_rack: -1}, nodes",
        "6:30 spec.cluster.links.in_rack: not a number of bytes per second: -1 (write bytes per second such as 1000,",
    ),
    (
        "cluster: {nodes",
        "cluster: {links: {between: {n1: {n2: .inf}}}, nodes",
        "6:40 spec.cluster.links.between.n1.n2: not a number of bytes per second: inf",
    ),
    (
        "cluster: {nodes",
        "cluster: {links: {between: {n1: {n2: 0}}}, nodes",
        "6:40 spec.cluster.links.between.n1.n2: 0 is not accepted (expected bytes per second from 1",
    ),
    (
        "cluster: {nodes",
        "cluster: {links: {between: {n1: {n3: 1}}}, nodes",
        "6:36 spec.cluster.links.between.n1.n3: no node 'n3' in this cluster (nodes: n1, n2)",
    ),
    (
        "cluster: {nodes",
        "cluster: {links: {between: {m1: {n2: 1}}}, nodes",
        "6:31 spec.cluster.links.between.m1: no node 'm1' in this cluster (nodes: n1, n2)",
    ),
    (
        "cluster: {nodes",
        "cluster: {links: {between: {n1: {n1: 1}}}, nodes",
        "6:36 spec.cluster.links.between.n1.n1: 'n1' needs no link to itself",
    ),
    (
        "cluster: {nodes",
        "cluster: {profile: events, executors: {}, links: {rate: 1}, nodes",
        "6:52 spec.cluster.links: links do not go with executors that outlive tasks",
    ),
    (
        "duration: 3s",
        "duration: {by_node: {n1: 3s}}",
        "12:74 spec.workload.jobs[0].stages[0].duration.by_node: no run time for node 'n2' (expected one for each of 2",
    ),
    (
        "duration: 3s",
        "duration: {by_node: {n1: 3s, n2: 4s, n3: 5s}}",
        "12:91 spec.workload.jobs[0].stages[0].duration.by_node.n3: no node 'n3' in this cluster (nodes: n1, n2)",
    ),
    (
        "duration: 3s",
        "duration: {by_node: {n1: 3s, n2: [4s]}}",
        "12:87 spec.workload.jobs[0].stages[0].duration.by_node.n2: 1 durations for 2 tasks (expected one per task)",
    ),
    (
        "duration: 3s",
        "duration: {by_node: {n1: 3s, n2: [4s, .nan]}}",
        "12:92 spec.workload.jobs[0].stages[0].duration.by_node.n2[1]: not a duration: nan",
    ),
    (
        "duration: 3s",
        "duration: {by_node: {}}",
        "12:74 spec.workload.jobs[0].stages[0].duration.by_node: is empty: expected at least one entry",
    ),
    # copies
    (
        "  workload:",
        "  copies: {}\n  workload:",
        "7:11 spec.copies: no policy or placement of this scenario copies tasks",
    ),
    (
        "seeds: [1]",
        "copies: {max: .nan}",
        "5:17 spec.copies.max: nan is not accepted (expected a whole number)",
    ),
    (
        "seeds: [1]",
        "copies: {max: 1}",
        "5:17 spec.copies.max: 1 is not accepted (expected at least 2)",
    ),
    (
        "seeds: [1]",
        "copies: {others: kill}",
        "5:20 spec.copies.others: 'kill' is not accepted (expected 'run' or 'end')",
    ),
    ("seeds: [1]", "seeds: [99999999999999, 1.5]", "5:10 spec.seeds: not a seed: 1.5 (seeds are whole numbers)"),
    ("seeds: [1]", "seeds: [true]", "5:10 spec.seeds: not a seed: True (seeds are whole numbers)"),
    ("seeds: [1]", "seeds: 5..1", "5:10 spec.seeds: empty range of seeds: '5..1' (write the smaller number first)"),
    ("seeds: [1]", "seeds: -3..1", "5:10 spec.seeds: not a list of seeds: '-3..1' (write [1, 2, 3] or 1..5)"),
    ("seeds: [1]", "seeds: ١..٣", "5:10 spec.seeds: not a list of seeds: '١..٣' (write [1, 2, 3] or 1..5)"),
    ("seeds: [1]", "seeds: 1..100000000", "5:10 spec.seeds: too many seeds: '1..100000000' (at most 10000)"),
    ("seeds: [1]", "seeds: {a: 1}", "5:10 spec.seeds: not a list of seeds: {'a': 1} (write [1, 2, 3] or 1..5)"),
    ("seeds: [1]", "seeds: null", "5:10 spec.seeds: not a list of seeds: None (write [1, 2, 3] or 1..5)"),
    (
        "count: 2,",
        "count: 1e9,",
        "6:29 spec.cluster.nodes[0].count: 1000000000 is not accepted (expected at most 1000000)",
    ),
    ("count: 2,", "count: true,", "6:29 spec.cluster.nodes[0].count: true is not accepted (expected a whole number)"),
    (
        "count: 2,",
        "speed: 1e-300,",
        "6:29 spec.cluster.nodes[0].speed: 1e-300 is not accepted (expected at least 0.001)",
    ),
    (
        "count: 2,",
        "speed: 1e300,",
        "6:29 spec.cluster.nodes[0].speed: 1e+300 is not accepted (expected at most 1000.0)",
    ),
    (
        "count: 2,",
        "count: 2, taints: [{key: ''}],",
        "6:47 spec.cluster.nodes[0].taints[0].key: '' is not accepted (expected some text)",
    ),
    (
        "count: 2,",
        "count: 2, labels: {a: 1},",
        "6:44 spec.cluster.nodes[0].labels.a: 1 is not accepted (expected text (put it in quotes))",
    ),
    (
        "count: 2,",
        "name: a b, count: 2,",
        "6:28 spec.cluster.nodes[0].name: 'a b' is not accepted (expected letters, digits, '-' and '_",
    ),
    (
        "nodes: [",
        "executors: {}, nodes: [",
        "6:24 spec.cluster.executors: executors need the profile 'events', this cluster has 'yarn'",
    ),
    (
        "nodes: [",
        "disorder: {lose: 1}, nodes: [",
        "6:24 spec.cluster.disorder.lose: unknown key 'lose' (accepted: permute, delay, delay_time, d",
    ),
    (
        "nodes: [",
        "profile: 3, nodes: [",
        "6:22 spec.cluster.profile: 3 is not accepted (expected 'events', 'kubernetes', 'sls' or 'yarn')",
    ),
    (
        "nodes: [",
        "profile: {kind: yran}, nodes: [",
        "6:29 spec.cluster.profile.kind: unknown profile 'yran' (accepted: events, kubernetes, sls, yarn), did you",
    ),
    (
        "nodes: [",
        "profile: {kind: kubernetes, create_rate: 0}, nodes: [",
        "6:54 spec.cluster.profile.create_rate: 0 is not accepted: expected `float` > 0.0",
    ),
    (
        "nodes: [",
        "profile: {kind: kubernetes, seen_ms: 3}, kubernetes: {seen: 5ms}, nodes: [",
        "6:66 spec.cluster.kubernetes: settings of the profile stand in `profile` already; take one of the two out",
    ),
    (
        "nodes: [",
        "profile: kubernetes, kubernetes: {x: 1}, nodes: [",
        "6:47 spec.cluster.kubernetes.x: unknown key 'x' (accepted: cycle, create, create_rate, relea",
    ),
    ("nodes: [", "heartbeat: 0s, nodes: [", "6:24 spec.cluster.heartbeat: is 0: expected a duration above zero"),
    (
        "nodes: [",
        "containers_per_heartbeat: 1000000000000, nodes: [",
        "6:39 spec.cluster.containers_per_heartbeat: 1000000000000 is not accepted (expected at most",
    ),
    (
        "nodes: [",
        "startup: soon, nodes: [",
        "6:22 spec.cluster.startup: not a duration: 'soon' (write a number of seconds, or a number wi",
    ),
    (
        "nodes: [",
        "overbook: {network: -1}, nodes: [",
        "6:33 spec.cluster.overbook.network: -1 is not accepted (expected at least 0.0)",
    ),
    (
        "nodes: [",
        "application_master: {container: {}}, nodes: [",
        "6:45 spec.cluster.application_master.container: is empty: expected at least one entry",
    ),
    ("nodes: [", "sizes: {x: 1}, nodes: [", "6:20 spec.cluster.sizes.minimum: 'minimum' is missing"),
    (
        "{kind: fifo}",
        "{kind: sjf, predictor: {kind: oracle, error: [-1, 1]}}",
        "14:28 spec.policies[0].predictor: oracle: error is [-1.0, 1.0] (two numbers, ascending, abov",
    ),
    (
        "{kind: fifo}",
        "{kind: sjf, predictor: {kind: oracle, error: [1, 0]}}",
        "14:28 spec.policies[0].predictor: oracle: error is [1.0, 0.0] (two numbers, ascending, above -1)",
    ),
    (
        "{kind: fifo}",
        "{kind: weighted_fair}",
        "14:5 spec.policies[0]: policy 'weighted_fair' orders jobs by estimated run time: give it a p",
    ),
    (
        "{kind: fifo}",
        "{kind: drf, level: 3}",
        "14:24 spec.policies[0].level: 3 is not accepted (expected job, queue, user)",
    ),
    (
        "{kind: fifo}",
        "{kind: gs, predictor: {kind: slearn, fixed_percent: 1e300}}",
        "14:57 spec.policies[0].predictor.fixed_percent: 1e+300 is not accepted: expected `float` <=",
    ),
    (
        "{kind: fifo}",
        "{kind: las, thresholds_s: [1]}",
        "14:17 spec.policies[0].thresholds_s: 'las' has no setting 'thresholds_s' (accepted: kind, la",
    ),
    (
        "{kind: fifo}",
        "{kind: fifo, label: '<b>'}",
        "14:25 spec.policies[0].label: '<b>' is not accepted (expected letters, digits, '-' and '_',",
    ),
    (
        "{kind: fifo}",
        "{kind: bounded, policy: {kind: nobody}}",
        "14:5 spec.policies[0]: unknown policy 'nobody' (known: alsched, bfs, bounded, capacity, c",
    ),
    (
        "{kind: fifo}",
        "{kind: bounded, policy: {kind: bounded, policy: 3}}",
        "14:5 spec.policies[0]: policy 'bounded': Expected `object`, got `int` - at `$.policy`",
    ),
    (
        "{kind: fifo}",
        "{<<: fifo}",
        "14:10: not YAML: expected a mapping or list of mappings for merging, but found scalar (while",
    ),
    (
        "{kind: fifo}",
        "{<<: [1], label: x}",
        "14:11: not YAML: expected a mapping for merging, but found scalar (while constructing a mapp",
    ),
    (
        "{kind: fifo}",
        "{<<: {knd: fifo}}",
        "14:5 spec.policies[0]: kind is missing (accepted: alsched, bfs, bounded, capacity, c",
    ),
    (
        "{kind: fifo}",
        "{kind: fifo, kind: sjf}",
        "14:18 spec.policies[0].kind: key 'kind' is given twice, first in line 14, remove one of the two",
    ),
    (
        "{kind: fifo}",
        "{kind: fifo, 'kind': sjf}",
        "14:18 spec.policies[0].kind: key 'kind' is given twice, first in line 14, remove one of the two",
    ),
    (
        "{kind: fifo}",
        "{kind: [fifo]}",
        "14:12 spec.policies[0].kind: unknown policy '['fifo']' (accepted: alsched, bfs, bounded, ca",
    ),
    (
        "{kind: fifo}",
        "{kind: capacity, queues: {root.x: {}}}",
        "14:39 spec.policies[0].queues[\"root.x\"]: there is no queue 'root.x' (queues: root, root.default)",
    ),
    (
        "{kind: fifo}",
        "{kind: fair_yarn, queues: {x: {weight: 2}}}",
        "14:35 spec.policies[0].queues.x: there is no queue 'x' (queues: root, root.default)",
    ),
    (
        "{kind: fifo}",
        "{kind: fair_yarn, preemption: true}",
        "14:35 spec.policies[0].preemption: true is not accepted (expected False)",
    ),
    (
        "{kind: fifo}",
        "{kind: fifo, placement: {kind: nowhere}}",
        "14:36 spec.policies[0].placement.kind: unknown placer 'nowhere' (accepted: best_fit, deft, dot",
    ),
    (
        "{kind: fifo}",
        "{kind: hdrf, placement: {kind: deft}}",
        "14:29 spec.policies[0].placement: placement 'deft' assigns tasks before they can start, in the policy's order",
    ),
    (
        "{kind: fifo}",
        "{kind: fifo, placement: {kind: deft, ahead: maybe}}",
        "14:49 spec.policies[0].placement.ahead: 'maybe' is not accepted",
    ),
    (
        "{kind: fifo}",
        "{kind: fifo, placement: {kind: best_fit, x: 1}}",
        "14:46 spec.policies[0].placement.x: 'best_fit' has no setting 'x' (accepted: kind, tie)",
    ),
    (
        "{kind: fifo}",
        "{kind: gs, predictor: {x: 1}}",
        "14:27 spec.policies[0].predictor: kind is missing (accepted: oracle, point_estimate, point_es",
    ),
    (
        "{kind: fifo}",
        "{kind: gs, predictor: slearn}",
        "14:27 spec.policies[0].predictor: 'slearn' is not accepted (write {kind: NAME}), did you mea",
    ),
    (
        "{kind: fifo}",
        "{kind: fifo}\n  report: {charts: [{kind: share}]}",
        "15:28 spec.report.charts[0].kind: unknown chart 'share' (accepted: best_label, bins,",
    ),
    (
        "{kind: fifo}",
        "{kind: fifo}\n  report: {charts: [{kind: shares, queus: 3}]}",
        "15:36 spec.report.charts[0].queus: 'shares' has no setting 'queus' (accepted: kind, queues), did you m",
    ),
    (
        "{kind: fifo}",
        "{kind: fifo}\n  report: {charts: [{kind: shares, queues: 1}]}",
        "15:44 spec.report.charts[0].queues: 1 is not accepted: expected `int` >= 2",
    ),
    (
        "{kind: fifo}",
        "{kind: fifo}\n  report: {charts: [{kind: jct}, {kind: jct}]}",
        "15:11 spec.report: chart 'jct' is set 2 times: name it once",
    ),
    (
        "{kind: fifo}",
        "{kind: fifo}\n  report: {charts: [{}]}",
        "15:21 spec.report.charts[0]: kind is missing (accepted: best_label, bins,",
    ),
    (
        "{kind: fifo}",
        "{kind: fifo}\n  expect: ['fifo.jct_s.mean < 1e999']",
        "15:12 spec.expect[0]: expectation 'fifo.jct_s.mean < 1e999', column 19: expected a smaller n",
    ),
    (
        "{kind: fifo}",
        "{kind: fifo}\n  expect: ['" + "(" * 100 + "1" + ")" * 100 + " < 3']",
        "15:12 spec.expect[0]: expectation '(((((((((((((((((((((((((((((((((((((((((((((((((((((((((",
    ),
    (
        "{kind: fifo}",
        "{kind: fifo}\n  expect: ['" + "-" * 100 + "1 < 3']",
        "15:12 spec.expect[0]: expectation '---------------------------------------------------------",
    ),
    (
        "{kind: fifo}",
        "{kind: fifo}\n  expect: ['1" + "+1" * 300 + " < 3']",
        "15:12 spec.expect[0]: expectation '1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+...', column 501:",
    ),
    (
        "{kind: fifo}",
        "{kind: fifo}\n  expect: ['fifo.queues[\"x < 3']",
        "15:12 spec.expect[0]: expectation 'fifo.queues[\"x < 3', column 13: cannot read '\"' (accepted",
    ),
    (
        "{kind: fifo}",
        "{kind: fifo}\n  expect: ['']",
        "15:12 spec.expect[0]: expectation '', column 1: expected a figure such as label.jct_s.mean,",
    ),
    (
        "{kind: fifo}",
        "{kind: fifo}\n  expect: ['fifo.jct_s.p101 < 3']",
        "15:12 spec.expect[0]: expectation 'fifo.jct_s.p101 < 3', column 12: unknown field 'p101' (kn",
    ),
    (
        "{kind: fifo}",
        "{kind: fifo}\n  expect: ['fifo.jct_s.mean < 3 %']",
        "15:12 spec.expect[0]: expectation 'fifo.jct_s.mean < 3 %', column 21: cannot read '%' (accep",
    ),
    (
        "{kind: fifo}",
        "{kind: fifo}\n  expect: ['fifo.jct_s.mean ≤ 3']",
        "15:12 spec.expect[0]: expectation 'fifo.jct_s.mean ≤ 3', column 17: cannot read '≤' (accepte",
    ),
    (
        "{kind: fifo}",
        "{kind: fifo}\n  expect: ['fifo.jct_s.mean < nan']",
        "15:12 spec.expect[0]: expectation 'fifo.jct_s.mean < nan', column 19: unknown label 'nan' (k",
    ),
    (
        "{kind: fifo}",
        "{kind: fifo}\n  expect: ['1 < 2 < 3']",
        "15:12 spec.expect[0]: expectation '1 < 2 < 3', column 7: expected the end, or one of + - * /",
    ),
    (
        "{kind: fifo}",
        "{kind: fifo}\n  expect: ['fifo.jct_s.mean = 3']",
        "15:12 spec.expect[0]: expectation 'fifo.jct_s.mean = 3', column 17: cannot read '=' (accepte",
    ),
    (
        "{kind: fifo}",
        "{kind: fifo}\n  expect: ['fifo.jct_s.mean']",
        "15:12 spec.expect[0]: expectation 'fifo.jct_s.mean', column 16: expected one of < <= > >= ==",
    ),
    (
        "{kind: fifo}",
        "{kind: fifo}\n  expect: ['fifo.queues[-1].jct_s.mean < 3']",
        "15:12 spec.expect[0]: expectation 'fifo.queues[-1].jct_s.mean < 3', column 13: expected a na",
    ),
    (
        "{kind: fifo}",
        "{kind: fifo}\n  expect: [3]",
        "15:12 spec.expect[0]: 3 is not accepted (expected text (put it in quotes))",
    ),
    (
        "{kind: fifo}",
        "{kind: fifo}\n  expect: fifo.jct_s.mean < 9",
        "15:11 spec.expect: 'fifo.jct_s.mean < 9' is not accepted (expected a list)",
    ),
    (WORKLOAD, "  workload: {kind: trace, path: s.yaml}\n", " not a stored workload: there is no workload.yaml in it"),
    (
        WORKLOAD,
        "  workload: {kind: trace, path: /dev/zero, format: csv}\n",
        "/dev/zero: cannot be read: /dev/zero: is not a regular file (a pipe or device: save what it",
    ),
    (
        WORKLOAD,
        '  workload: {kind: trace, path: "a\\0b"}\n',
        "7:33 spec.workload.path: no such file: 'a\x00b' (relative to the scenario's folder,",
    ),
    (
        WORKLOAD,
        "  workload: {kind: trace, path: " + "a" * 5000 + "}\n",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    ),
    (
        WORKLOAD,
        '  workload: {kind: tpch, jobs: 3, profiles: "."}\n',
        "no folder such as 2g with files such as adj_mat_1.npy in it (give the folder spark_env/tpch)",
    ),
    (
        WORKLOAD,
        "  workload: {kind: tpch, jobs: 3, profiles: s.yaml}\n",
        " not a JSON file of TPC-H profiles: JSON is malformed: invalid character (byte 0)",
    ),
    (
        WORKLOAD,
        "  workload: {kind: tpch, jobs: 3}\n",
        "6:12 spec.cluster: run times measured per executor need executors (write `executors: {}` her",
    ),
    (
        WORKLOAD,
        "  workload: {kind: synthetic, preset: 2sigma-like, jobs: 100000000}\n",
        "7:58 spec.workload.jobs: 100000000 is not accepted (expected at most 10000000)",
    ),
    (
        WORKLOAD,
        "  workload: {kind: synthetic, preset: 2sigma-like, jobs: 10, load: 1e-300}\n",
        "7:68 spec.workload.load: 1e-300 is not accepted (expected at least 0.001)",
    ),
    (
        WORKLOAD,
        "  workload: {kind: synthetic, preset: 2sigma-like, jobs: 10, load: 1e300}\n",
        "7:68 spec.workload.load: 1e+300 is not accepted (expected at most 1000.0)",
    ),
    (
        WORKLOAD,
        "  workload: {kind: synthetic, preset: 2sigma-like, jobs: 10, knobs: {jitter: .nan}}\n",
        "7:78 spec.workload.knobs.jitter: nan is not accepted: expected a finite number",
    ),
    (
        WORKLOAD,
        "  workload: {kind: synthetic, preset: 2sigma-like, jobs: 10, knobs: {jitter: 1e300}}\n",
        "7:13 spec.workload: its numbers are too large to calculate with ((34, 'Numerical result out",
    ),
    (
        WORKLOAD,
        "  workload: {kind: synthetic, preset: 2sigma-like, jobs: 10, knobs: {jitter: much}}\n",
        "7:78 spec.workload.knobs.jitter: 'much' is not accepted: expected `float`, got `str`",
    ),
    (WORKLOAD, "  workload: {kind: jobs, jobs: 3}\n", "7:32 spec.workload.jobs: 3 is not accepted (expected a list)"),
    (
        WORKLOAD,
        "  workload: {kind: trace, path: s.yaml, format: sacct, options: {map: {job: x}}}\n",
        "7:66 spec.workload.options.map: trace format 'sacct' has no setting 'map' (accepted: limit,",
    ),
    (
        WORKLOAD,
        "  workload: {kind: trace, path: s.yaml, format: csv, options: {rws: task}}\n",
        "7:64 spec.workload.options.rws: trace format 'csv' has no setting 'rws' (accepted: limit, sk",
    ),
    (
        WORKLOAD,
        "  workload: {kind: synthetic, preset: 2sigma-like, jobs: 10, asks: {error: [1, -1]}}\n",
        "7:76 spec.workload.asks.error: [1.0, -1.0] is not accepted (expected two numbers, ascending,",
    ),
    (
        WORKLOAD,
        "  workload: {kind: synthetic, preset: 2sigma-like, jobs: 10, asks: {without: [cpu, memory]}}\n",
        "7:78 spec.workload.asks.without: cpu, memory are all that there is (expected one at least to",
    ),
    (
        WORKLOAD,
        "  workload: {kind: synthetic, preset: 2sigma-like, jobs: 10, data: {replicas: 9}}\n",
        "7:79 spec.workload.data.replicas: 9 replicas on 2 nodes (expected at most one a node)",
    ),
    (
        WORKLOAD,
        "  workload: {kind: synthetic, preset: 2sigma-like, jobs: 10, data: {replicas: 1, remote: {off: 0.5}}}\n",
        "7:96 spec.workload.data.remote.off: 0.5 is not accepted (expected at least 1.0)",
    ),
    (
        "  workload:",
        "  queues: [{name: a, parent: b}, {name: b, parent: c}, {name: c, parent: a}]\n  workload:",
        "7:30 spec.queues[0].parent: queue 'a' is its own ancestor",
    ),
    (
        "  workload:",
        "  queues: [{name: a, guaranteed: 60%}, {name: b, guaranteed: 60%}]\n  workload:",
        "7:62 spec.queues[1].guaranteed: 'a', 'b' are guaranteed 120% together, and the cluster has 100%",
    ),
    (
        "  workload:",
        "  queues: [{name: a, guaranteed: 60%, max: 10%}]\n  workload:",
        "7:44 spec.queues[0].max: max is below what is guaranteed: 10% = 400m of cpu for 60% = 2400m",
    ),
    (
        "  workload:",
        "  queues: [{name: a}]\n  workload:",
        "11:7 spec.workload.jobs[0].queue: queue 'default' is not declared (accepted: a)",
    ),
    (
        "  workload:",
        "  queues: [{name: a, weight: heavy}]\n  workload:",
        "7:30 spec.queues[0].weight: 'heavy' is not accepted (expected a number)",
    ),
    (
        "  workload:",
        "  queues: [{name: a, per_user: {limit: {tpu: 1}}}]\n  workload:",
        "7:41 spec.queues[0].per_user.limit.tpu: unknown resource 'tpu' (this cluster has cpu, memory",
    ),
    (
        "  workload:",
        "  queues: [{name: a, per_user: {max_running: 0}}]\n  workload:",
        "7:46 spec.queues[0].per_user.max_running: 0 is not accepted (expected at least 1)",
    ),
    (
        "  workload:",
        "  queues: [{name: a, max: half}]\n  workload:",
        "7:27 spec.queues[0].max: 'half' is not a share of the cluster (expected '25%', 0.25, or reso",
    ),
    (
        "  workload:",
        "  queues: [{name: a, wieght: 2}]\n  workload:",
        "7:22 spec.queues[0].wieght: unknown key 'wieght' (accepted: name, weight, parent, guaranteed",
    ),
    (
        "  workload:",
        "  queues: [{name: ''}]\n  workload:",
        "7:19 spec.queues[0].name: '' is not accepted (expected some text)",
    ),
    ("  workload:", "  queues: default\n  workload:", "7:11 spec.queues: 'default' is not accepted (expected a list)"),
]


@pytest.mark.parametrize(
    ("old", "new", "says"), ROWS, ids=[f"{number}-{row[1].strip()[:40]!r}" for number, row in enumerate(ROWS)]
)
def test_a_bad_value(refused: Refused, tmp_path: Path, old: str, new: str, says: str) -> None:
    assert GOOD.count(old) == 1
    (tmp_path / "s.yaml").write_text(GOOD.replace(old, new), encoding="utf-8")
    assert says in refused("check", "s.yaml").replace(f"{tmp_path}/", "")
