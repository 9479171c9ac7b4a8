# Lamina without CUDA: docker build -f docker/cpu.Dockerfile -t lamina:cpu .
FROM debian:12
WORKDIR /lamina
COPY . .
RUN ./dev setup && ./dev build && rm -rf /var/lib/apt/lists/*
ENTRYPOINT ["./dev"]
CMD ["train"]
