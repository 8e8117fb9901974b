# docker build -t rowcast .
# docker run --name rowcast -p 9926:9926 -p 1883:1883 -v rowcast:/data rowcast
# docker exec -it rowcast rowcast user add ann --data /data --role admin
#
# To a server in a container every caller comes from elsewhere, and callers without a name are
# accepted from the same machine only. So it refuses everybody until there is a user.
# docs/operation.md says how to try it without users.
FROM python:3.11-slim

WORKDIR /srv/rowcast
COPY requirements-server.lock .
RUN pip install --no-cache-dir --no-deps --require-hashes -r requirements-server.lock
COPY LICENSE .
COPY app app
COPY schema.graphql .
COPY resources resources
RUN printf '#!/bin/sh\nexec python -m rowcast "$@"\n' > /usr/local/bin/rowcast \
  && chmod +x /usr/local/bin/rowcast \
  && useradd --system --no-create-home rowcast \
  && mkdir /data && chown rowcast /data

ENV PYTHONPATH=/srv/rowcast/app PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER rowcast
VOLUME /data
EXPOSE 9926 1883 9927 8883
HEALTHCHECK --interval=10s --timeout=3s \
  CMD python -c "import urllib.request as u; u.urlopen('http://127.0.0.1:9926/health', timeout=2)"

ENTRYPOINT ["rowcast"]
CMD ["serve", "--data", "/data", "--set", "http.host=0.0.0.0", \
     "--set", "mqtt.network.host=0.0.0.0"]
