# Nearside as a container beside an application: one static binary, the CA certificates, nothing else; no shell.
#
#   docker build --tag nearside .                         anywhere that images can be pulled from
#   docker build --target lab --tag nearside-lab .        the benchmark and the demonstration, with nearside beside them
#   make image                                            with buildah, also without a registry of images; tests the result
#
# The builder needs Rust 1.95, a C compiler and CA certificates.
ARG BUILDER=rust:1.95-bookworm

FROM ${BUILDER} AS build
WORKDIR /src
# A C library of its own makes the binary independent of the final image. getrandom then cannot look the system call up
# in a shared one and would need /dev/urandom: it is told to make the call.
ENV RUSTFLAGS="-C target-feature=+crt-static --cfg getrandom_backend=\"linux_getrandom\""

# The dependencies, in a layer that changes only with them: the sources are empty stand-ins. Benches, tests and examples
# are not built here and not brought here, so the manifest loses every section that names one.
COPY Cargo.toml Cargo.lock build.rs ./
COPY proto proto
COPY lab/Cargo.toml lab/
RUN awk '/^\[/ { dropped = /^\[\[(bench|test|example)\]\]/ } !dropped' Cargo.toml > trimmed && mv trimmed Cargo.toml \
    && mkdir src lab/src && touch src/lib.rs lab/src/lib.rs && echo 'fn main() {}' | tee src/main.rs > lab/src/main.rs \
    && cargo build --release --locked --bin nearside --target "$(rustc --print host-tuple)"

# Nearside itself. The stand-ins may be newer than the sources, so those are touched.
COPY src src
RUN touch src/lib.rs src/main.rs build.rs \
    && cargo build --release --locked --bin nearside --target "$(rustc --print host-tuple)"

# The final image's files.
RUN mkdir -p /image/etc/ssl/certs /image/etc/nearside /image/home \
    && cp target/*/release/nearside /image/nearside \
    && cp -L /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ \
    && echo 'nearside:x:65532:65532:nearside:/home:/nologin' > /image/etc/passwd \
    && echo 'nearside:x:65532:' > /image/etc/group \
    && echo 'hosts: files dns' > /image/etc/nsswitch.conf \
    && echo '# Mount yours over this one, or say everything in NEARSIDE__* variables.' > /image/etc/nearside/nearside.toml

# The lab, for an image of its own.
FROM build AS build-lab
COPY lab lab
RUN touch lab/src/lib.rs lab/src/main.rs \
    && cargo build --release --locked --package nearside-lab --no-default-features --target "$(rustc --print host-tuple)"
RUN cp -r /image /image-lab && cp target/*/release/nearside-lab /image-lab/ && mkdir -m 1777 /image-lab/tmp

FROM scratch AS lab
COPY --from=build-lab /image-lab/ /
USER 65532:65532
ENTRYPOINT ["/nearside-lab"]
CMD ["--help"]

FROM scratch
COPY --from=build /image/ /
# For a Unix socket that is shared with the application, and for what is remembered across restarts.
COPY --from=build --chown=65532:65532 /image/home/ /run/nearside/
COPY --from=build --chown=65532:65532 /image/home/ /var/lib/nearside/
USER 65532:65532
# 8700 for the application, 8701 for operators. Both listen on loopback unless the settings say otherwise: containers of
# a task or pod share it.
EXPOSE 8700 8701
STOPSIGNAL SIGTERM
# Healthy while it answers, however fresh; not while it drains.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s --retries=3 \
    CMD ["/nearside", "health", "--config", "/etc/nearside/nearside.toml"]
ENTRYPOINT ["/nearside"]
CMD ["run", "--config", "/etc/nearside/nearside.toml"]
