# nodeproof with figures, report pages and readers of other libraries' files:
#   docker build -t nodeproof .
#   docker run --rm -v "$PWD:/data" nodeproof fit edges.csv --labels labels.csv --out results
FROM python:3.13-slim

COPY pyproject.toml README.md LICENSE /source/
COPY src /source/src
RUN pip install --no-cache-dir '/source[plot,report,big,data,io]' && rm -r /source

# Compiled once, for a CPU of any kind, where every user may read and add to it.
ENV NUMBA_CACHE_DIR=/var/cache/nodeproof NUMBA_CPU_NAME=generic MPLCONFIGDIR=/tmp/matplotlib
RUN mkdir -m 1777 /var/cache/nodeproof && nodeproof warmup && chmod -R a+rwX /var/cache/nodeproof

RUN useradd --create-home user
USER user
WORKDIR /data
ENTRYPOINT ["nodeproof"]
CMD ["--help"]
