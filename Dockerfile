# replayer as a container: everything it needs comes from its own files.
ARG PYTHON_IMAGE=python:3.12.11-slim
FROM ${PYTHON_IMAGE}
COPY pyproject.toml README.md LICENSE /src/
COPY replayer /src/replayer
COPY workloads /src/workloads
COPY schemas /src/schemas
RUN python -m pip install --no-cache-dir /src && rm -rf /src
# Results and the private server's data live here; mount volumes over them.
# replayer believes what lies in its home, which must be its own user's alone: run as another user,
# give it another one, as docker-compose.yml does.
ENV REPLAYER_HOME=/var/lib/replayer REPLAYER_RESULTS=/results
RUN mkdir -p /var/lib/replayer /results && chown nobody /var/lib/replayer /results
USER nobody
ENTRYPOINT ["replayer"]
CMD ["--help"]
