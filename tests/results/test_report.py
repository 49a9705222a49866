"""The report's text and data; what a browser makes of it is tested in tests/browser."""

from __future__ import annotations

import json
import re
import shutil
import zlib
from base64 import b64decode

import msgspec
import numpy as np
import polars as pl
import pytest

from rm_emulator.results import chart, contest, headline, report, summary
from rm_emulator.results.charts import gantt
from rm_emulator.results.charts.variation import recurring as recurring_jobs
from rm_emulator.results.figures import Speedup

CHARTS = [
    "speedups",
    "jct",
    "ratios",
    "wait",
    "error",
    "placement",
    "variation",
    "bins",
    "shares",
    "states",
    "jain",
    "plan",
    "utilisation",
    "gantt",
]


@pytest.fixture(scope="module")
def page(run):
    return report.write(run[0]).read_text()


@pytest.fixture(scope="module")
def figures(page):
    return json.loads(re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)[1].replace("<\\/", "</"))


def test_every_chart_is_there(figures):
    assert [name for name in figures if name in CHARTS] == CHARTS


def test_every_chart_stands_below_its_section_in_order(page):
    shown = [each for each in chart.drawings() if each.id in CHARTS]
    places = [(page.index(f'<h2 id="{each.section.id}"'), page.index(f'id="{each.id}"')) for each in shown]
    assert all(heading < figure for heading, figure in places)
    assert places == sorted(places)


def late(cells):
    return chart.Chart(title="Late", alt="", caption="", variants=(("", {}),), head=("label",), rows=(("x",),))


def test_a_chart_of_a_plug_in_brings_its_section(run):
    chart.register(chart.Section("lateness", 45, "Late jobs", "Who was late", "As asked."), order=1)(late)
    text = report.render(run[0])
    order = ['<h2 id="kinds"', '<h2 id="lateness">Who was late</h2>', 'id="late"', '<h2 id="sharing"']
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    assert '<a href="#lateness">Late jobs</a>' in text


def test_every_chart_has_its_numbers_as_a_table(page):
    assert page.count('<details class="numbers"') >= len(CHARTS)


def test_nothing_is_loaded_from_anywhere(page):
    without_plotly = re.sub(r'id="plotly">.*?</script>', "", page, flags=re.DOTALL)
    links = without_plotly.replace('<a href="https://ui.perfetto.dev"', "")
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:,)""", links)


def test_the_trace_of_each_label_is_named_as_seen_from_the_report(run, page):
    told = page[page.index('id="perfetto"') :]
    for label in ("slearn", "three_sigma"):
        path = re.search(rf"<li>{label}: <code>(.*?)</code>", told)[1]
        assert (run[0] / path).is_file()


def test_a_run_without_traces_says_nothing_of_perfetto(run, tmp_path):
    shutil.copytree(run[0], tmp_path / "run", ignore=shutil.ignore_patterns("trace.json*"))
    assert 'id="perfetto"' not in report.render(tmp_path / "run")


def shifted(run, out_dir, by_ms):
    """A copy of the run in which all happens later."""
    shutil.copytree(run[0], out_dir)
    for name in ("jobs", "tasks", "nodes"):
        for path in out_dir.rglob(f"{name}.parquet"):
            table = pl.read_parquet(path)
            times = [each for each in table.columns if each.endswith("_ms") and each not in SPANS]
            table.with_columns(pl.col(times) + by_ms).write_parquet(path)
    return out_dir


#: Columns of tables that are durations.
SPANS = ("work_ms", "size_ms", "ideal_ms")


def test_axes_of_time_begin_at_a_late_first_submission(run, tmp_path):
    late = chart.Cells.of(shifted(run, tmp_path / "late", 10**10))
    for place in chart.drawings():
        if place.id in ("gantt", "utilisation"):
            begin, end = place.draw(late).variants[0][1]["layout"]["xaxis"]["range"]
            assert begin == pytest.approx(10**10 / 3_600_000, rel=0.01)
            assert end > begin


def test_axes_of_time_begin_at_0_for_an_early_first_submission(run):
    for place in chart.drawings():
        if place.id in ("gantt", "utilisation"):
            assert place.draw(chart.Cells.of(run[0])).variants[0][1]["layout"]["xaxis"]["range"][0] == 0


def test_a_logarithmic_axis_begins_at_the_decade_of_the_least_value_that_is_not_0(run):
    cells = chart.Cells.of(run[0])
    cells.pooled = lambda label, column: np.array([0.0] * 4 + [12.0] * 100)
    (wait,) = (place for place in chart.drawings() if place.id == "wait")
    assert {trace["x"][0] for trace in wait.draw(cells).variants[0][1]["data"]} == {10.0}


def test_the_page_is_small(page):
    assert len(page) < 4_000_000


def test_plotly_unpacks():
    assert b"Plotly" in zlib.decompress(b64decode(report.plotly_compressed()))


def test_writing_again_gives_the_same_bytes(run, page):
    assert report.render(run[0]) == page


def test_curves_end_at_one(figures):
    assert all(trace["y"][-1] == 1.0 for name in ("jct", "wait", "error") for trace in figures[name][0]["data"])


def test_names_are_escaped(run, tmp_path):
    shutil.copytree(run[0], tmp_path / "run")
    path = tmp_path / "run" / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "scenario": "<script>alert(1)</script>"}))
    assert "<script>alert" not in report.render(tmp_path / "run")


def test_charts_that_do_not_apply_are_left_out(fabricate, tmp_path):
    scenario = fabricate.run_directory(tmp_path, labels={"fifo": None}, seeds=(1,), jobs=30)
    summary.build(tmp_path, scenario)
    text = report.render(tmp_path)
    shown = json.loads(re.search(r'id="figures">(.*?)</script>', text, re.DOTALL)[1])
    assert not {"speedups", "error", "placement", "bins", "ratios", "plan"} & set(shown)


def test_the_description_of_the_workload_is_shown_when_there_is_one(run, tmp_path):
    shutil.copytree(run[0], tmp_path / "run")
    cov = {"mean": 1.2, "p50": 1.0, "p90": 3.1, "max": 9.0}
    judged = {"of": 4, "jobs": 2, "work": 0.5, "error": {"mean": 1, "p50": 0.2, "p90": 1.5, "max": 2}}
    told = {"verdict": "Sampling would pay here.", "cov_time": cov, "cov_space": None, "recurring": judged}
    count = {"node": {"cpu": "16"}, "derived": False, "least": 1, "enough": 7, "wait_s": 600, "waits": [], "judged": 9}
    told["sizes"] = {"demands": [], "widest_gang": 0} | count
    (tmp_path / "run" / "workload.json").write_text(json.dumps(told))
    text = report.render(tmp_path / "run")
    assert "Sampling would pay here." in text
    assert "History: 2 of 4 jobs have earlier runs" in text
    assert "errs by 20% (P50), 150% (P90)" in text
    assert 'id="workload"' in text
    assert "Nodes of cpu=16 (an estimate): nothing is refused from 1 node on; 90% of the jobs wait 10 min at" in text


def with_speedup(built, value, low, high):
    """The summary with this speedup; the baseline left more jobs unfinished, so the other label is the best."""
    replace, compared = msgspec.structs.replace, built.comparisons[0]
    speedups = replace(compared.speedup, ratio_of_means=Speedup(value=value, ci95=[low, high]))
    runs = [replace(run, unfinished_jobs=int(run.label == built.baseline)) for run in built.runs]
    return replace(built, runs=runs, comparisons=[replace(compared, speedup=speedups)])


@pytest.mark.parametrize(
    ("speedup", "sentence"),
    [
        (
            (1.21, 1.1, 1.3),
            "slearn finishes jobs 1.21{x} sooner than three_sigma on average (95 % CI 1.10{to}1.30)",
        ),
        (
            (0.5, 0.4, 0.8),
            "slearn takes 2.00{x} as long as three_sigma to finish a job on average (95 % CI 1.25{to}2.50)",
        ),
        (
            (1.02, 0.9, 1.1),
            "No difference that 2 seeds show between slearn and three_sigma: jobs finish 1.02{x} as fast "
            "(95 % CI 0.90{to}1.10)",
        ),
    ],
)
def test_the_headline_says_no_more_than_the_interval(run, speedup, sentence):
    assert headline.of(with_speedup(run[2], *speedup)) == sentence.format(x="\u00d7", to="\u2013")


def of_three(built, **values):
    """A summary of labels a (the baseline), b and c with these ratios of means."""
    replace, run, compared = msgspec.structs.replace, built.runs[0], built.comparisons[0]
    sure = {label: Speedup(value=value, ci95=[value - 0.05, value + 0.05]) for label, value in values.items()}
    return replace(
        built,
        baseline="a",
        runs=[replace(run, label=label) for label in "abc"],
        comparisons=[
            replace(compared, label=n, baseline="a", speedup=replace(compared.speedup, ratio_of_means=s))
            for n, s in sure.items()
        ],
    )


@pytest.mark.parametrize(
    ("values", "best", "begins"),
    [
        ({"b": 1.2, "c": 1.5}, "c", "c finishes jobs 1.50\u00d7 sooner than a"),
        ({"b": 0.5, "c": 0.8}, "a", "c takes 1.25\u00d7 as long as a"),
    ],
)
def test_the_headline_names_the_best_label(run, values, best, begins):
    made = of_three(run[2], **values)
    assert contest.best(made) == best
    assert headline.of(made).startswith(begins)


def test_the_best_label_leaves_no_more_jobs_unfinished_than_another(run):
    made = of_three(run[2], b=1.2, c=1.5)
    left = [msgspec.structs.replace(each, unfinished_jobs=int(each.label == "c")) for each in made.runs]
    assert contest.best(msgspec.structs.replace(made, runs=left)) == "b"


def test_the_best_label_is_not_one_that_is_told_the_run_times(run):
    made = of_three(run[2], b=1.2, c=1.5)
    names = [msgspec.structs.replace(r, predictor="oracle" if r.label == "c" else None) for r in made.runs]
    assert contest.best(msgspec.structs.replace(made, runs=names)) == "b"


def test_a_small_cluster_is_shown_whole_in_the_gantt(figures):
    assert len(figures["gantt"][0]["layout"]["yaxis"]["ticktext"]) == 8


def test_a_bar_of_the_gantt_tells_stage_wait_and_units(figures):
    trace = figures["gantt"][0]["data"][0]
    assert re.fullmatch(r"job-\d+, stage 0<br>granted [\d.,]+ s after its job came, ran 0 s later", trace["text"][0])
    assert re.fullmatch(r"[\d.,]+ (s|min|h)", trace["customdata"][0][1])


def test_column_headings_explain_themselves(page):
    notes = re.search(r'id="columns">(.*?)</dl>', page, re.DOTALL)[1]
    assert "right queue:" in notes
    assert "wide jobs (3 tasks and more)" in notes


def test_a_gantt_of_many_tasks_is_merged(fabricate, run, monkeypatch):
    monkeypatch.setattr(gantt, "GANTT_SLICES", 300)
    figure = json.loads(re.search(r'id="figures">(.*?)</script>', report.render(run[0]), re.DOTALL)[1])["gantt"][0]
    assert sum(len(trace["x"]) for trace in figure["data"]) <= 300
    assert any("tasks" in text for trace in figure["data"] for text in trace["text"])


def recurring(times: dict[str, dict[int, tuple[int, ...]]]) -> dict:
    """The variation of jobs of one name: job -> stage -> run times."""
    jobs = pl.DataFrame({"id": list(times), "name": ["n"] * len(times), "work_ms": [6] * len(times)})
    rows = [
        {"job": job, "stage": stage, "node": "x", "code": 0, "started_ms": 0, "ended_ms": ms}
        for job, stages in times.items()
        for stage, each in stages.items()
        for ms in each
    ]
    nodes = pl.DataFrame({"node": ["x"], "speed": [1.0]})
    return recurring_jobs(jobs, pl.DataFrame(rows), nodes).row(0, named=True)


def test_recurring_jobs_vary_as_worked_out_by_hand():
    found = recurring({"a": {0: (1, 2, 3)}, "b": {0: (1, 2, 3)}, "c": {0: (4, 5, 6)}})
    # means 2, 2, 5: deviation sqrt(2) over mean 3; inside sqrt(2/3) over 2, 2, 5, and sqrt(0.03 * 3) below
    assert found["time"] == pytest.approx(2**0.5 / 3)
    assert found["space"] == pytest.approx((2 / 3) ** 0.5 * (1 / 2 + 1 / 2 + 1 / 5) / 3 / 0.3)


def test_stages_of_different_length_are_no_variation():
    found = recurring({name: {0: (5, 5, 5), 1: (900, 900)} for name in "abc"})
    assert (found["time"], found["space"]) == (0.0, 0.0)
