"""The commands ``rowcast serve`` and ``rowcast check``."""

import gc
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rowcast.core.errors import Code, Error
from rowcast.core.fairness_limits import LOCK_SECONDS
from rowcast.core.tables import Table
from rowcast.program.commands.options import ConfigOption, DataOption, SetOption, join_settings
from rowcast.program.config import Config

if TYPE_CHECKING:
    from rowcast.models import Models

SchemaOption = Annotated[
    Path | None,
    typer.Option("--schema", help="Schema that declares the tables [default: schema.graphql]."),
]
ResourcesOption = Annotated[
    Path | None,
    typer.Option("--resources", help="Directory of custom resources [default: resources]."),
]
HttpPortOption = Annotated[
    int | None, typer.Option("--http-port", help="Port of HTTP; 0 picks a free port.")
]
MqttPortOption = Annotated[
    int | None, typer.Option("--mqtt-port", help="Port of MQTT; 0 picks a free port.")
]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", help="Processes more that serve tables over HTTP [default: 0]."),
]
ClusterOption = Annotated[
    str | None, typer.Option("--cluster", help="Name of the cluster that this node is of.")
]
NodeOption = Annotated[str | None, typer.Option("--node", help="Name of this node.")]
PeerOption = Annotated[
    list[str] | None,
    typer.Option(
        "--peer", metavar="NAME=HOST:PORT", help="A node of the cluster; name all, this one too."
    ),
]
CheckConfigOption = Annotated[
    bool, typer.Option("--check-config", help="Check as rowcast check does, and exit.")
]


def serve(
    config: ConfigOption = None,
    schema: SchemaOption = None,
    resources: ResourcesOption = None,
    data: DataOption = None,
    http_port: HttpPortOption = None,
    mqtt_port: MqttPortOption = None,
    workers: WorkersOption = None,
    cluster: ClusterOption = None,
    node: NodeOption = None,
    peer: PeerOption = None,
    settings: SetOption = None,
    check_config: CheckConfigOption = False,
) -> None:
    """Start the server; Ctrl-C stops it.

    Example: rowcast serve --http-port 8080 --set mqtt.max_connections=5000
    """
    flags = {
        "schema": schema,
        "resources": resources,
        "data": data,
        "http.port": http_port,
        "mqtt.network.port": mqtt_port,
        "workers.count": workers,
        "cluster.name": cluster,
        "cluster.node": node,
        "cluster.peers": peer or None,
    }
    chosen = join_settings(config, flags, settings)
    (_check if check_config else _run)(chosen)


def _run(chosen: Config) -> None:
    """Run a server of its own, or a node of a cluster, until it is stopped."""
    sys.setswitchinterval(LOCK_SECONDS)
    gc.disable()  # until ready: objects made now stay, so collections would be wasted
    if chosen.cluster.name:
        from rowcast.program.node import serve as run  # noqa: PLC0415 - other commands need none
    else:
        from rowcast.program.main import serve as run  # noqa: PLC0415 - likewise

    run(chosen)


def check(
    config: ConfigOption = None,
    schema: SchemaOption = None,
    resources: ResourcesOption = None,
    settings: SetOption = None,
    run_resources: Annotated[
        bool,
        typer.Option(
            "--run-resources", help="Import the resources too, as the server does at start."
        ),
    ] = False,
) -> None:
    """Check settings, schema, resources and certificates; start nothing.

    Resources are checked for syntax errors and are not run, so that untrusted code is safe to
    check.

    Prints the tables and files found, or each problem with its file, line and column, with exit
    code 1.

    Example: rowcast check --schema schema.graphql
    """
    chosen = join_settings(config, {"schema": schema, "resources": resources}, settings)
    _check(chosen, run_resources=run_resources)


def _check(chosen: Config, *, run_resources: bool = False) -> None:
    """Print a summary of the configuration, or raise INVALID with each problem."""
    from rowcast.features.alarms.settings import AlarmSection, check_webhooks  # noqa: PLC0415
    from rowcast.models import Models  # noqa: PLC0415
    from rowcast.program.deriving import check_jobs  # noqa: PLC0415
    from rowcast.program.doors import certificates_of  # noqa: PLC0415 - not for every command
    from rowcast.program.resource_loader import check_resources  # noqa: PLC0415
    from rowcast.schema import load_schema  # noqa: PLC0415

    if chosen.cluster.name:
        _check_node(chosen)
    problems: list[str] = []
    models: Models | None = None
    for warning in chosen.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    tables: Sequence[Table] | None = None
    try:
        tables = load_schema(chosen.schema_file).tables
        models = Models(tables, chosen.database_url)
        check_webhooks(tables, chosen.of(AlarmSection).receivers)
        check_jobs(chosen, tables)
        _print_found(chosen.schema_file, [table.name for table in tables])
    except Error as error:
        problems.append(error.message)
    try:
        if run_resources:
            _print_found(chosen.resources, _paths_of(chosen.resources, tables, models))
        elif files := check_resources(chosen.resources):
            print(f"{chosen.resources}: {', '.join(files)} (not run; see --run-resources)")
    except Error as error:
        problems.append(error.message)
    try:
        if (certificates := certificates_of(chosen, time.time)) is not None:
            _print_found(Path(str(chosen.tls.certificate)), [str(certificates.load())])
    except Error as error:
        problems.append(error.message)
    if problems:
        raise Error(Code.INVALID, "\n".join(problems))


def _paths_of(
    directory: Path, tables: Sequence[Table] | None, models: "Models | None"
) -> list[str]:
    """Import the resources, as the server does at start; return their paths.

    Raises INVALID also where functions do not fit the computed attributes of ``tables``, which is
    None if the schema has errors of its own.
    """
    from rowcast.features.computed.computation import Computation  # noqa: PLC0415
    from rowcast.features.computed.feature import ComputedByCode  # noqa: PLC0415
    from rowcast.features.hooks.hooks import Hooks  # noqa: PLC0415
    from rowcast.program.resource_loader import load_resources  # noqa: PLC0415

    hooks = Hooks()
    found = load_resources(directory, hooks, models)
    if tables is not None:
        ComputedByCode(tables, hooks.collected(Computation))
    return [path for path, _ in found]


def _check_node(chosen: Config) -> None:
    from rowcast.program.cluster_checks import check_cluster  # noqa: PLC0415 - not for all

    check_cluster(chosen)


def _print_found(place: Path, names: list[str]) -> None:
    print(f"{place}: {', '.join(names) or 'nothing declared'}")
