# The repository with everything that `make test` needs. deploy/compose/compose.test.yaml runs the suite in it.
ARG RUST_IMAGE=rust:1.95-bookworm

FROM ${RUST_IMAGE}
WORKDIR /src
# The same servers and runtimes as for a checkout, and a layer that only their list changes.
COPY scripts/setup.sh scripts/
RUN scripts/setup.sh run sinks test && rm -rf /var/lib/apt/lists/*
COPY . .
CMD ["make", "test"]
