# Two stages: the first builds, the second holds no build tools. All sources and both databases are installed.
FROM python:3.11-slim AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
RUN python -m venv /opt/tidegate \
 && /opt/tidegate/bin/pip install --no-cache-dir --constraint constraints.txt '.[serve,onnx,postgres,nats,kafka]'

FROM python:3.11-slim
RUN useradd --system --uid 10001 --no-create-home tidegate \
 && install --directory --owner tidegate --group tidegate --mode 0700 /state
COPY --from=build /opt/tidegate /opt/tidegate
ENV PATH=/opt/tidegate/bin:$PATH PYTHONDONTWRITEBYTECODE=1 OPENBLAS_NUM_THREADS=1
USER 10001
VOLUME /state
EXPOSE 8321
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8321/v1/health', timeout=4)"]
# Nobody outside reaches a container's loopback; compose.yaml publishes the port on the host's loopback.
# No --config: the state is created once, by hand (docs/operate.md); one that is missing is refused.
ENTRYPOINT ["tidegate"]
CMD ["serve", "/state/gate", "--host", "0.0.0.0"]
