# toppo on CPUs, with MuJoCo, Atari, videos and export: docs/docker.md.
FROM python:3.11-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim
# Renderers for videos, and a user that is not root.  Debian keeps only the newest version of a package.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libegl1 libgl1 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 toppo \
    && install --directory --owner=toppo /work
# The wheel and the exact versions are needed only while they are installed.
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    --mount=type=bind,source=constraints.txt,target=/constraints.txt \
    wheel="$(echo /wheels/toppo-*.whl)" \
    && pip install --no-cache-dir --constraint /constraints.txt "${wheel}[mujoco,atari,video,onnx]"
USER 1000
WORKDIR /work
ENTRYPOINT ["toppo"]
CMD ["--help"]
