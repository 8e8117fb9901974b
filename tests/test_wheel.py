"""What ``scripts/build`` makes: a wheel that runs alone, in an environment with nothing else.

The pure wheel is tested whole; the compiled one, which differs by its extension modules, in those.

The environment has the packages of requirements-server.lock, linked from this one, so that no
index is asked, and the wheel, installed by pip. No other package of this environment is in reach.
"""

import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from house import ROOT
from http_clients import blocking_client
from rowcast import __version__
from rowcast.core.log_version import OPERATIONS
from rowcast.program.commands.init import STARTERS
from serving import PATIENCE_SECONDS, Server, environment
from test_compiling import LISTED
from test_packaging import locked

pytestmark = pytest.mark.slow

PACKAGES = {"pyspark_rowcast", "rowcast", "rowcast_client", "rowcast_lake"}
APP = ROOT / "app"


COMPILING_SECONDS = 900
"""More than a busy machine needs to compile the hot modules."""


def attempt(
    *command: object, folder: Path, patience: float = PATIENCE_SECONDS, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=environment() | variables,
        capture_output=True,
        text=True,
        timeout=patience,
        check=False,
    )


def run(*command: object, folder: Path, **options: str | float) -> str:
    """Run a command to its end, and return what it printed."""
    done = attempt(*command, folder=folder, **options)
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout


def build(source: Path, to: Path, *options: str, **variables: str | float) -> None:
    """Build as scripts/build does, which leaves the archives beside the project; or pure."""
    command = (sys.executable, "-m", "hatchling", "build", "--directory", to, *options)
    run(*command, folder=source, **{"COMPILED": "no", **variables})


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A directory with the wheel and the source archive."""
    place = tmp_path_factory.mktemp("dist")
    build(ROOT, place)
    return place


@pytest.fixture(scope="module")
def wheel(built):
    return next(built.glob("*.whl"))


@pytest.fixture(scope="module")
def bare(wheel, tmp_path_factory):
    """The programs of an environment with the locked packages and the wheel."""
    return installed(wheel, tmp_path_factory.mktemp("bare"))


def installed(wheel: Path, place: Path) -> Path:
    """Install the locked packages and a wheel; return where the programs are."""
    run(sys.executable, "-m", "venv", "--without-pip", place, folder=place)
    packages = next(place.glob("lib/python*/site-packages"))
    for name in locked("requirements-server.lock"):
        for item in top_level(name):
            (packages / item.name).symlink_to(item)
    python = place / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    run(*pip, "install", "--no-index", "--no-deps", wheel, folder=place)
    return place / "bin"


def top_level(name: str) -> Iterator[Path]:
    """Give the files and folders that a package has in site-packages, if it is installed here."""
    try:
        package = distribution(name)
    except PackageNotFoundError:
        return  # it is for another platform
    names = {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}
    yield from (Path(str(package.locate_file(item))) for item in sorted(names))


class InstalledServer(Server):
    """``rowcast serve`` of an environment, with the files and settings of its directory."""

    def __init__(self, programs: Path, project: Path, scratch: Path) -> None:
        super().__init__(scratch, anew=True)
        self.folder = project
        self.program = programs / "rowcast"

    @property
    def command(self) -> list[str]:
        """What is run."""
        ports = [f"--set={name}={value}" for name, value in self.settings.items()]
        return [str(self.program), "serve", *ports]


def test_the_wheel_has_every_file_of_the_packages_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    beside = f"rowcast-{__version__}.dist-info/"
    files = {
        path.relative_to(APP).as_posix()
        for package in PACKAGES
        for path in (APP / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert files == {name for name in names if not name.startswith(beside)}
    assert f"{beside}licenses/LICENSE" in names
    assert {
        "rowcast/doors/http/ui/index.html",
        "rowcast_client/py.typed",
        "rowcast_lake/spark/log4j2.properties",
        *(f"rowcast/program/template/{name}" for name in STARTERS.values()),
    } <= names


def test_the_source_archive_makes_the_same_wheel(built, wheel, tmp_path):
    """So what somebody packages from the sources is what was tested here."""
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    build(tmp_path / f"rowcast-{__version__}", tmp_path / "again", "-t", "wheel")
    assert wheel.read_bytes() == (tmp_path / "again" / wheel.name).read_bytes()


def test_the_wheel_needs_no_other_package_of_this_environment(bare):
    code = "import importlib.util as u; print(u.find_spec('pytest'), u.find_spec('app'))"
    assert "None None\n" == run(bare / "python", "-c", code, folder=bare)


def test_python_m_rowcast_is_the_command(bare, tmp_path):
    told = run(bare / "python", "-m", "rowcast", "--version", folder=tmp_path)
    assert f"{__version__}, version {OPERATIONS} of the log\n" == told


def test_init_and_serve_in_an_empty_directory(bare, tmp_path):
    """The first minute: two commands, then a record written and read, and the live page."""
    project, scratch = tmp_path / "project", tmp_path / "scratch"
    scratch.mkdir()
    project.mkdir()
    run(bare / "rowcast", "init", folder=project)
    with InstalledServer(bare, project, scratch) as server:
        call = (bare / "rowcast", "put", "--url", server.url.rstrip("/"), "Dog/1")
        run(*call, '{"name": "Rex"}', folder=project)
        with blocking_client(base_url=server.url) as client:
            assert "Rex" == client.get("/Dog/1").json()["name"]
            assert {"text": "Hello, Ann!"} == client.get("/Greeting/Ann").json()
            assert "text/html" in client.get("/ui/").headers["Content-Type"]
        assert 0 == server.stop()
    assert {"data", "resources", "rowcast.yaml", "schema.graphql"} == {
        item.name for item in project.iterdir()
    }


# -- compiled --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """The wheel with compiled modules."""
    if attempt(sys.executable, "scripts/compiled.py", "--check", folder=ROOT).returncode:
        pytest.skip("this machine cannot compile, which scripts/test says at its end")
    place = tmp_path_factory.mktemp("compiled")
    build(ROOT, place, "-t", "wheel", patience=COMPILING_SECONDS, COMPILED="yes")
    return next(place.glob("*.whl"))


@pytest.mark.timeout(COMPILING_SECONDS)
def test_a_compiled_wheel_has_an_extension_beside_each_listed_source(compiled, wheel):
    assert compiled.name.endswith(f"{sysconfig.get_platform().replace('-', '_')}.whl")
    with zipfile.ZipFile(compiled) as archive, zipfile.ZipFile(wheel) as pure:
        more = set(archive.namelist()) - set(pure.namelist())
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    expected = {name.removesuffix(".py") + suffix for name in LISTED}
    assert expected | {f"rowcast__mypyc{suffix}"} == more


@pytest.mark.timeout(COMPILING_SECONDS)
def test_a_server_from_a_compiled_wheel_says_so(compiled, tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)  # what is tested is the wheel alone
    bare, project, scratch = (tmp_path / name for name in ("bare", "project", "scratch"))
    for place in (bare, project, scratch):
        place.mkdir()
    programs = installed(compiled, bare)
    run(programs / "rowcast", "init", folder=project)
    with InstalledServer(programs, project, scratch) as server:
        with blocking_client(base_url=server.url) as client:
            assert 201 == client.put("/Dog/1", json={"name": "Rex"}).status_code
            assert "Rex" == client.get("/Dog/1").json()["name"]
            assert "compiled" == client.get("/health").json()["code"]
        assert " (compiled) is ready." in server.log
        assert 0 == server.stop()


def test_without_a_compiler_the_wheel_is_pure_and_says_why(built, tmp_path):
    """From the source archive, as pip builds it."""
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    source = tmp_path / f"rowcast-{__version__}"
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel")
    done = attempt(*command, folder=source, CC="no-such-compiler")
    assert (0, True) == (done.returncode, "no C compiler (no-such-compiler)" in done.stderr)
    assert ["py3-none-any"] == [file.stem[-12:] for file in source.glob("dist/*.whl")]
    asked = attempt(*command, folder=source, CC="no-such-compiler", COMPILED="yes")
    assert 0 != asked.returncode, "COMPILED=yes takes no pure wheel"
