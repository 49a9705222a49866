"""The `rm-emulator` command: options in, a call into the package, an exit code out.

0 done, 1 a check failed, 2 bad input, 130 interrupted. Standard output holds results (with --json exactly
one document), standard error progress and messages. Heavy imports are inside the functions, so that
`--help` answers at once.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from rm_emulator import completion, options, record
from rm_emulator.arguments import CheckedGroup, CheckedTyper
from rm_emulator.options import (
    Engine,
    Format,
    Json,
    Label,
    Labels,
    Name,
    NodeShape,
    Option,
    Plugin,
    Quiet,
    ScenarioFile,
    Seed,
    Seeds,
    Set,
    SkipBadRows,
    Wait,
)
from rm_emulator.program import as_json, end, prints_apart

if TYPE_CHECKING:
    from rm_emulator.learn.config import Config
    from rm_emulator.learn.constants import ConstantsTraining
    from rm_emulator.learn.train import Training
    from rm_emulator.results.figures import Summary
    from rm_emulator.scenario.load import Loaded
    from rm_emulator.scenario.workload import Built

app = CheckedTyper(
    cls=CheckedGroup,
    help="Run cluster schedulers on simulated time and compare them: heartbeats, DAG jobs, learned run times.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
traces_app = CheckedTyper(
    cls=CheckedGroup,
    help="List the trace formats, or describe a workload.",
    invoke_without_command=True,
    rich_markup_mode=None,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from rm_emulator.version import __version__, has_compiled_core

        typer.echo(f"rm-emulator {__version__}{' (compiled core)' if has_compiled_core() else ''}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


def _checked(
    source: str | Path, seeds: str | None = None, changes: list[str] | None = None, *, notes: bool = False
) -> tuple[Loaded, Built]:
    """A scenario and its first seed's workload. notes: report omitted parts of the file, before mistakes."""
    from rm_emulator.scenario.check import check as check_scenario
    from rm_emulator.scenario.load import load

    with prints_apart():
        loaded = load(source, overrides=changes or (), seeds=seeds)
        _note(loaded.notes, quiet=not notes)
        return loaded, check_scenario(loaded)


@app.command()
def run(
    scenario: ScenarioFile,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Run directory (default: out/NAME).")] = None,
    seeds: Seeds = None,
    set_: Set = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", metavar="N", min=1, help="Processes at once (default: one a core).")
    ] = None,
    engine: Engine = None,
    plugin: Plugin = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the results of another scenario.")] = False,
    no_replay: Annotated[
        bool, typer.Option("--no-replay", help="Do not check plug-in policies by a replay of the first run of each.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a scenario: every policy and seed, compared."""
    from rm_emulator.experiments import grid, progress
    from rm_emulator.experiments.directory import stored_cells
    from rm_emulator.issues import show_point

    loaded, *built = _checked(scenario, seeds, set_, notes=not quiet)
    files = [str(file) for file in plugin or ()]
    where = out or Path("out") / loaded.scenario.metadata.name
    try:
        with prints_apart():
            finished = grid.run(
                loaded,
                where,
                built=built.pop(),  # `grid.run` forgets the workload before the report
                jobs=jobs,
                engine=engine,
                plugins=files,
                overwrite=overwrite,
                replay=not no_replay,
                display=None if quiet else progress.display(),
            )
    except KeyboardInterrupt:
        kept = len(stored_cells(where))
        _report(f"interrupted: {kept} finished runs are kept in {where}; the same command computes what is missing")
        raise typer.Exit(130) from None
    if finished.summary is None:
        _report_failures(finished)
        raise typer.Exit(1)
    if json:
        from msgspec import to_builtins

        _print_json(to_builtins(finished.summary))
    else:
        _show_summary(finished.summary, where)
    failed = [outcome for outcome in finished.summary.expect if not outcome.holds]
    for outcome in failed:
        at = f" at {show_point(outcome.sweep)}" if outcome.sweep else ""
        figures = outcome.exact
        _report(f"expectation failed{at}: {outcome.text} ({figures})")
    raise typer.Exit(1 if failed else 0)


def _report_failures(finished: Any) -> None:
    for failure in finished.failures:
        _report(str(failure))
    kept = finished.computed + finished.reused
    _report(f"{kept} finished runs are kept in {finished.out}; the same command computes only what is missing")


def _show_summary(summary: Summary, where: Path) -> None:
    from rich.console import Console

    from rm_emulator.results import headline

    headline.show(summary, Console(file=sys.stdout))
    typer.echo(f"report: {where / 'report.html'}")


@app.command()
def init(
    example: Annotated[
        str | None, typer.Argument(metavar="EXAMPLE", help="Name of an example.", autocompletion=completion.examples)
    ] = None,
    folder: Annotated[Path | None, typer.Argument(metavar="DIR", help="Where to copy it.")] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="TRACE", help="Write a scenario for the jobs of a trace or stored workload, into DIR."
        ),
    ] = None,
    format_: Format = None,
    option: Option = None,
    skip_bad_rows: SkipBadRows = False,
    wait: Wait = None,
    node: NodeShape = None,
    nodes: Annotated[
        int | None, typer.Option("--nodes", metavar="N", min=1, help="Number of nodes (default: by the waits).")
    ] = None,
    plugin: Plugin = None,
) -> None:
    """List the example scenarios, copy one to start from, or write one for a trace (`init --from TRACE DIR`)."""
    from rm_emulator.scenario import examples

    if trace is not None:
        if folder is not None:
            raise typer.BadParameter(f"with --from, a single DIR is given: '{example}' and '{folder}' are two")
        from rm_emulator.scenario import draft

        made = draft.write(
            trace,
            Path(example or "."),
            format_=format_,
            texts=tuple(option or ()),
            skip_bad_rows=skip_bad_rows,
            wanted=draft.wanted_cluster(wait, node, nodes),
        )
        for path in made:
            typer.echo(str(path))
        return
    if format_ or option or skip_bad_rows or wait or node or nodes:
        raise typer.BadParameter("--format, --option, --skip-bad-rows, --wait, --node, --nodes belong to --from TRACE")
    if example is None:
        for name, about in examples.summaries():
            typer.echo(f"{name:<22} {about}")
        return
    for path in examples.copy(example, folder or Path()):
        typer.echo(str(path))


@app.command()
def check(
    scenario: ScenarioFile, seeds: Seeds = None, set_: Set = None, plugin: Plugin = None, quiet: Quiet = False
) -> None:
    """Name every mistake of a scenario; run nothing."""
    from rm_emulator.experiments.resolved import resolved
    from rm_emulator.issues import show_point
    from rm_emulator.results.unused import unused_settings
    from rm_emulator.scenario import without_effect
    from rm_emulator.scenario.workload import launch_warnings, offered

    loaded, built = _checked(scenario, seeds, set_, notes=not quiet)
    spec = loaded.scenario.spec
    nodes = sum(group.count for group in spec.cluster.nodes)
    runs = f"{len(spec.policies)} policies x {len(spec.seeds)} seeds"
    if spec.sweep:
        cells = len(loaded.points) * len(spec.policies) * len(spec.seeds)
        runs = f"{len(loaded.points)} points x {runs} = {cells:,} runs; at {show_point(loaded.point.values)}"
    workload = f"{len(built.workload.jobs):,} jobs, {built.workload.tasks:,} tasks"
    load, resource = offered(loaded.scenario, built)
    shown = "" if load is None or resource is None else f", load {load:.2f} of {resource}"
    typer.echo(f"{loaded.file}: ok ({runs}; {nodes:,} nodes; {workload}){shown}")
    unused = (*unused_settings(resolved(loaded)["spec"]), *without_effect.notes(loaded, built.workload))
    notes = [f"note: {note}" for note in (*built.notes, *unused)]
    _note([*notes, *launch_warnings(loaded.scenario, built)], quiet=quiet)


@app.command()
def schema(
    markdown: Annotated[bool, typer.Option("--markdown", help="As a page with an example of each key.")] = False,
    plugin: Plugin = None,
) -> None:
    """Print the JSON Schema of scenario files."""
    if markdown:
        from rm_emulator.scenario import reference

        typer.echo(reference.markdown(), nl=False)
        return
    from rm_emulator.scenario.schema import json_schema

    _print_json(json_schema())


def _listing(noun: str, help_: str, among: str = "    policies:\n    - ", hint: str = "") -> None:
    """Register the command that lists a registry. among: text before an example in a scenario; hint: last line."""

    def listing(name: Name = None, json: Json = False, plugin: Plugin = None) -> None:
        from rm_emulator import listing_text

        registry = completion.registry(noun)
        if name is not None:
            from rm_emulator.scenario.listing import entry

            entries = [entry(registry, name)]
        else:
            entries = [each.describe() for each in registry]
        if json:
            _print_json(entries if name is None else entries[0])
        else:
            listing_text.show(entries, among)
            if name is None and hint:
                typer.echo(hint)

    app.command(noun, help=help_)(listing)


_listing(
    "policies",
    "List the policies with their settings, or tell all of one.",
    hint="\nThree to try first: fifo as the baseline; drf for queues with weights; gs with predictor slearn where\n"
    "sizes are unknown. `rm-emulator policies NAME` tells all of one, with an example.",
)
_listing("predictors", "List the run-time predictors with their settings, or tell all of one.")
_listing("placers", "List the placers, which pick a task's node, or tell all of one.")
_listing(
    "charts",
    "List the charts of the report with their settings, or tell all of one.",
    among="    report:\n      charts:\n      - ",
)
_listing(
    "profiles",
    "List the profiles, the timing of real systems, with their settings, or tell all of one.",
    among="    cluster:\n      profile: ",
)


@traces_app.callback()
def traces(context: typer.Context, json: Json = False, plugin: Plugin = None) -> None:
    """List the trace formats, or describe a workload."""
    if context.invoked_subcommand is not None:
        return
    from rm_emulator import listing_text
    from rm_emulator.workload import formats

    entries = [formats.describe(name) for name in formats.names()]
    if json:
        _print_json(entries)
    else:
        listing_text.show(entries)


@traces_app.command()
def describe(
    workload: Annotated[
        Path,
        typer.Argument(metavar="WORKLOAD", help="A converted workload, a scenario file, or a trace of any format."),
    ],
    format_: Format = None,
    option: Option = None,
    skip_bad_rows: SkipBadRows = False,
    slots: Annotated[
        int | None, typer.Option("--slots", min=1, help="Slots that the load is measured against.")
    ] = None,
    wait: Wait = None,
    node: NodeShape = None,
    nodes: Annotated[
        int | None, typer.Option("--nodes", metavar="N", min=1, help="Estimate the waits on so many nodes, too.")
    ] = None,
    json: Json = False,
    plugin: Plugin = None,
) -> None:
    """Describe a workload: would sampling pay, and how many nodes does it need?"""
    from rm_emulator.scenario.draft import wanted_cluster
    from rm_emulator.workload import description, formats

    wanted = wanted_cluster(wait, node, nodes)
    if format_ or option or skip_bad_rows or not formats.is_scenario(workload):
        description.show_trace(
            workload,
            format_,
            slots,
            json,
            texts=option or (),
            skip_bad_rows=skip_bad_rows,
            wanted=wanted,
            report=_report,
        )
        return
    from rm_emulator.issues import show_point
    from rm_emulator.scenario.workload import on_own_nodes, slots_of

    loaded, built = _checked(workload)
    wanted, cores = on_own_nodes(loaded.scenario, built, wanted), slots or slots_of(loaded.scenario)
    at = f"at the first point of the sweep: {show_point(loaded.point.values)}"
    notes = (*built.notes, *([at] if loaded.point.number else []))
    description.show(built.workload, cores, json, profiles=built.profiles, notes=notes, wanted=wanted)


@app.command()
def convert(
    format_: Annotated[
        str, typer.Argument(metavar="FORMAT", help="A name that `traces` lists.", autocompletion=completion.formats)
    ],
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="The trace: a file or folder.")],
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="Folder to write the workload to.")],
    option: Option = None,
    map_: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="OURS=YOURS,...", help="Of csv: its columns, such as durations=End-Start."),
    ] = None,
    map_file: Annotated[
        Path | None,
        typer.Option("--map-file", metavar="FILE", help="Read the mapping from there; with --map, write it there."),
    ] = None,
    skip_bad_rows: SkipBadRows = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a workload that is there.")] = False,
    plugin: Plugin = None,
    quiet: Quiet = False,
) -> None:
    """Convert a trace to a workload (Parquet and YAML); an SLS folder of Hadoop's to a scenario."""
    from rm_emulator.workload import formats
    from rm_emulator.workload.mapping import map_text, mapping_of

    if format_ == "hadoop" and source.is_dir():
        _convert_folder(source, output, option or [], overwrite, quiet=quiet)
        return
    mapping = mapping_of(map_ or (), map_file, formats.mappable(format_))
    options = formats.settings(format_, option or (), skip_bad_rows=skip_bad_rows, mapping=mapping)
    with prints_apart():
        trace = formats.convert(format_, source, output, options, overwrite=overwrite)
    typer.echo(f"{output}: {len(trace.workload.jobs):,} jobs, {trace.workload.tasks:,} tasks")
    _note([f"note: {note}" for note in trace.notes], quiet=quiet)
    if map_:
        text = map_text(trace.mapping, source.name)
        if map_file is None:
            typer.echo(text, nl=False)
        else:
            map_file.write_text(text, "utf-8")


def _convert_folder(source: Path, output: Path, options: list[str], overwrite: bool, *, quiet: bool) -> None:
    from rm_emulator.hadoop import scenario
    from schedulers.core.errors import InvalidParameters

    if options:
        raise InvalidParameters(f"'{options[0]}': a folder's own configuration says the sizes (options are for files)")
    written, notes = scenario.convert(source, output, overwrite=overwrite)
    typer.echo(written)
    _note(notes, quiet=quiet)


@app.command()
def fidelity(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="SLS folders with real runs in results/.")],
    hadoop: Annotated[
        int,
        typer.Option("--hadoop", metavar="N", min=0, max=100, help="Make N fresh real runs (Maven, Java; real time)."),
    ] = 0,
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", min=1, max=10_000, help="Emulated runs: seeds 1 to N.")
    ] = 20,
    tolerance: Annotated[
        float,
        typer.Option("--tolerance", metavar="PCT", min=0, max=1000, help="For the mean; a job may have twice that."),
    ] = 5.0,
    json: Json = False,
    plugin: Plugin = None,
) -> None:
    """Compare the emulator with real runs of YARN."""
    from rm_emulator.fidelity import command

    code = command.main(folders, hadoop=hadoop, seeds=seeds, tolerance_pct=tolerance, as_json=json)
    raise typer.Exit(code)


@app.command()
def explain(
    target: Annotated[Path, typer.Argument(metavar="RUN_DIR|EVENTS.jsonl", help="A run directory or an event log.")],
    job: Annotated[str, typer.Argument(metavar="JOB", help="A job's id.")],
    task: Annotated[str | None, typer.Argument(metavar="TASK", help="One task: STAGE/INDEX.")] = None,
    label: Label = None,
    seed: Seed = None,
    advise: Annotated[
        bool, typer.Option("--advise", help="Try what would have helped: the run again, with one thing changed.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
    plugin: Plugin = None,
) -> None:
    """Tell what a job waited for, when and why; try what would have helped."""
    from rm_emulator.experiments import explain as explanation

    try:
        code = explanation.main(
            target, job, task, label, seed, advise=advise, plugins=plugin or (), json=json, quiet=quiet
        )
    except KeyboardInterrupt:
        _report("interrupted: nothing was written")
        raise typer.Exit(130) from None
    raise typer.Exit(code)


@app.command()
def simulate(
    source: options.Source = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    kubectl: options.Kubectl = "kubectl",
    file: options.JobFile = None,
    label: Label = None,
    seed: Seed = None,
    draws: options.Draws = 50,
    arrivals: options.GoOnToArrive = None,
    earlier: options.Earlier = None,
    no_tries: options.NoTries = False,
    policy: options.OtherPolicy = None,
    drain: options.Drain = None,
    add: options.Add = None,
    tolerance: options.Tolerance = 5.0,
    plot: options.Plot = None,
    json: Json = False,
    quiet: Quiet = False,
    plugin: Plugin = None,
    engine: Engine = None,
) -> None:
    """When will waiting jobs run, and a new job? Whom does the new job delay, what would let the new job start sooner?

    With --policy, --drain or --add: who gains and who loses by the change; exit code 1 for losses above --tolerance.
    """
    from rm_emulator.forecasts import changes, command
    from rm_emulator.scenario import live

    change = changes.AskedChange(policy, tuple(drain or ()), tuple(add or ()))
    code = command.main(
        source,
        command.question(file, draws, arrivals, earlier, tries=not no_tries, change=change),
        cluster=None if kubeconfig is None else live.LiveCluster(kubeconfig, context, kubectl),
        of_runs={"label": label, "seed": seed, "earlier": earlier},
        plugins=plugin or (),
        tolerance_pct=tolerance,
        json=json,
        quiet=quiet,
        engine=engine,
        plot=plot,
    )
    raise typer.Exit(code)


@app.command()
def replay(
    target: Annotated[Path, typer.Argument(metavar="EVENTS.jsonl", help="An event log, or a run directory.")],
    label: Label = None,
    seed: Seed = None,
    policy: options.ReplayPolicy = None,
    plugin: Plugin = None,
) -> None:
    """Replay an event log: are the decisions the same?"""
    from rm_emulator.experiments import first_difference
    from rm_emulator.results import replay as replaying

    logs = replaying.event_logs(target, label, seed)
    if not plugin:
        replaying.load_plugins_of(logs[0])
    told = replaying.main if policy is None else lambda log: first_difference.main(log, policy)
    raise typer.Exit(max(map(told, logs)))


@app.command()
def compare(
    run_dirs: Annotated[list[Path], typer.Argument(metavar="RUN_DIR [RUN_DIR]", help="One or two run directories.")],
    label: Labels = None,
    seed: Seed = None,
    json: Json = False,
) -> None:
    """Compare runs: figures, winners and losers."""
    if len(run_dirs) > 2:
        raise typer.BadParameter("one or two run directories are compared", param_hint="RUN_DIR")
    from rm_emulator.results import compare as comparison

    raise typer.Exit(comparison.main(run_dirs, label or [], json, seed))


@app.command()
def train(
    config: Annotated[
        str,
        typer.Argument(metavar="curves|decima|lachesis|CONFIG.yaml", help="A packaged configuration, or a file."),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder of the run (default: out/train/NAME)."),
    ] = None,
    profiles: options.Profiles = None,
    jobs: options.Players = None,
    engine: Engine = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    smoke: Annotated[bool, typer.Option("--smoke", help="The same in two minutes, to see that it works.")] = False,
    quiet: Quiet = False,
) -> None:
    """Train a policy: a network, DIR/best.safetensors, or constants, DIR/best.yaml (needs the extra `learn`)."""
    from rm_emulator.learn import arithmetic

    arithmetic.pin()  # before any import of numpy
    from rm_emulator.experiments import engines, pool
    from rm_emulator.issues import InvalidInput
    from rm_emulator.learn import config as configs

    workers = None if engine is None else engines.engine_of(engine, jobs)
    read, report = configs.read(configs.find(config), profiles), _reporter(quiet=quiet)
    where = out or Path("out") / "train" / read.name
    if read.method == "cma" and workers is not None:
        raise InvalidInput(f"--engine {engine}: constants are evolved on this machine alone; leave it out")
    how = {"jobs": jobs or pool.cores(), "resume": resume, "report": report}
    try:
        run = _training(read, where, smoke, how | ({} if workers is None else {"engine": workers}))
    except ImportError as error:
        raise InvalidInput(f"{error.name} is not installed: pip install 'rm-emulator[learn]'") from None
    try:
        run.run()
    except KeyboardInterrupt:
        _report(f"{where}: stopped; --resume goes on")
        raise typer.Exit(130) from None
    typer.echo(run.result)


def _training(read: Config, where: Path, smoke: bool, how: dict[str, Any]) -> ConstantsTraining | Training:
    """A run that has not begun. Raises ImportError without the extra `learn`."""
    if read.method == "cma":
        from rm_emulator.learn import constants

        return constants.ConstantsTraining(constants.smoke(read) if smoke else read, where, **how)
    from rm_emulator.learn import train as training

    return training.Training(training.smoke(read) if smoke else read, where, **how)


@app.command()
def wishes(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A scenario, an example's name, or an expression (FILE.strl).")
    ],
    job: Annotated[str | None, typer.Argument(metavar="JOB", help="Only this job.")] = None,
    set_: Set = None,
) -> None:
    """Show what jobs wish for as expressions in STRL."""
    from rm_emulator.experiments import wishes as wished

    if file.endswith(".strl"):
        typer.echo(wished.formatted(Path(file)))
    else:
        typer.echo(wished.expressions(*_checked(file, changes=set_), job))


@app.command()
def case(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE.yaml...", help="Files of known-answer cases (default: the package's example)."),
    ] = None,
) -> None:
    """Run known-answer cases: PASS, FAIL or SKIP."""
    from rm_emulator.known_answers import runner

    if not files:
        _report(f"the example in the package: {runner.EXAMPLE}")
    raise typer.Exit(runner.main(files or [runner.EXAMPLE]))


@app.command()
def bench(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One group of benchmarks (default: all).")] = None,
    json: Json = False,
) -> None:
    """Run the benchmarks, each compared with its reference (in a checkout)."""
    from importlib.util import find_spec

    from rm_emulator.issues import InvalidInput

    if find_spec("benchmarks") is None:
        raise InvalidInput("benchmarks are not part of the package: run this in a checkout, after `pip install -e .`")
    asked = [*([name] if name else []), *(["--json"] if json else [])]
    # Named, because file descriptor 1 of this process is standard error by now (`program.py`).
    raise typer.Exit(subprocess.call([sys.executable, "-m", "benchmarks", *asked], stdout=sys.stdout))  # noqa: S603


app.add_typer(traces_app, name="traces")
app.command()(record.snapshot)
app.command()(record.record)


def _print_json(data: Any) -> None:
    typer.echo(as_json(data, indent=1))


def _report(text: str) -> None:
    typer.echo(text, err=True)


def _reporter(*, quiet: bool) -> Callable[[str], None]:
    return (lambda _: None) if quiet else _report


def _note(texts: Iterable[str], *, quiet: bool) -> None:
    for text in () if quiet else texts:
        _report(text)


def main() -> NoReturn:
    """The console script."""
    end(lambda: app(prog_name="rm-emulator"))


if __name__ == "__main__":
    main()
