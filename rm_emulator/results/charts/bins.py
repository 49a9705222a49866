"""Who gains, by size and width of the job."""

from __future__ import annotations

import msgspec

from rm_emulator.results.chart import KINDS, Cells, Chart, register
from rm_emulator.results.drawing import colour, line
from rm_emulator.results.figures import BINS, Bin
from rm_emulator.results.table import BIN_NAMES, SPEEDUP_NAMES, interval, percent, times


@register(KINDS, order=10, wide=True, source="SLearn (NSDI'22), Table 8")
def bins(cells: Cells) -> Chart | None:
    """Speedup by size and width of the job (SLearn, NSDI'22, Table 8), for jobs of more than one bin."""
    summary, labels = cells.summary, cells.labels
    full = [name for name in BINS if any(getattr(run.bins, name).jobs_fraction for run in summary.runs)]
    if not summary.comparisons or len(full) < 2:
        return None
    first: dict[str, Bin] = msgspec.structs.asdict(summary.runs[0].bins)
    heads = {
        name: f"{BIN_NAMES[name].replace(', ', ',<br>')}<br>{percent(part.jobs_fraction)}"
        for name, part in first.items()
        if name in full
    }
    data, rows = [], []
    for compared in summary.comparisons:
        index, of_bins = labels.index(compared.label), msgspec.structs.asdict(compared.bins)
        each = [of_bins[name].speedup.ratio_of_means.value for name in full]
        data.append(
            {
                "type": "bar",
                "name": compared.label,
                "x": [*heads.values()],
                "y": [None if value is None else round(value, 4) for value in each],
                "marker": {"color": colour(index)},
                "hovertemplate": "%{x}: %{y:.2f}x<extra>" + compared.label + "</extra>",
            }
        )
        for name in full:
            part, both = first[name], of_bins[name]
            shares = [percent(part.jobs_fraction), percent(part.work_fraction)]
            averages = [times(getattr(both.speedup, key).value) for key in SPEEDUP_NAMES]
            ci95 = interval(both.speedup.ratio_of_means)
            rows.append((BIN_NAMES[name], *shares, compared.label, *averages, ci95, percent(both.jobs_faster)))
    layout = {
        "barmode": "group",
        "yaxis": {"title": {"text": f"speedup over {summary.baseline}"}, "ticksuffix": "x", "rangemode": "tozero"},
        "xaxis": {"type": "category", "tickangle": 0, "automargin": True, "showgrid": False},
        "shapes": [line(x0=0, x1=1, xref="paper", y0=1, y1=1)],
    }
    return Chart(
        title="By size and width of the job",
        alt="Speedup of each label by bin of jobs: thin or wide, small or large",
        caption="Small: under 1000 s of work in all its tasks; large: more. Thin: fewer than 3 tasks in the widest "
        "stage, so never sampled; wide: 3 or more. Below each "
        "bin its share of the jobs; bars show the ratio of means in it.",
        variants=(("", {"data": data, "layout": layout}),),
        head=("bin", "jobs", "work", "label", *SPEEDUP_NAMES.values(), "95 % (means)", "jobs faster"),
        rows=tuple(sorted(rows, key=lambda row: list(BIN_NAMES.values()).index(row[0]))),
    )
