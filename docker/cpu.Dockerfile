# Lamina without CUDA: docker build -f docker/cpu.Dockerfile -t lamina:cpu .
FROM debian:12
WORKDIR /lamina
COPY . .
RUN ./dev setup && ./dev build && rm -rf /var/lib/apt/lists/*
# Open MPI refuses root, and copies between processes that containers forbid, unless it is told.
ENV OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
ENTRYPOINT ["./dev"]
CMD ["train"]
