# The command line and the explorer, for a machine without Python:
#   docker build -t stochattn .
#   docker run --rm --user "$(id -u)" -v "$PWD:/data" stochattn sample patients.csv -n 500 -o new.csv
#   docker run --rm -it -v "$PWD:/data" -p 127.0.0.1:8765:8765 stochattn explore patients.csv
# Always publish the port on 127.0.0.1: without it, Docker publishes on all interfaces of the host.
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src ./src
RUN python -m venv /opt/stochattn \
    && /opt/stochattn/bin/pip install --no-cache-dir -c constraints.txt '.[explore,parquet]'

FROM python:3.13-slim
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends socat \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/stochattn /opt/stochattn
COPY docker/entrypoint.sh /usr/local/bin/entrypoint.sh
ENV PATH=/opt/stochattn/bin:$PATH \
    HOME=/tmp \
    PYTHONUNBUFFERED=1
USER 1000
WORKDIR /data
EXPOSE 8765
ENTRYPOINT ["entrypoint.sh"]
CMD ["--help"]
