# Lamina with its CUDA backend: docker build -f docker/cuda.Dockerfile -t lamina:cuda .
# No GPU is needed to build. To use one: docker run --gpus all lamina:cuda gpu
FROM ubuntu:24.04
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
WORKDIR /lamina
COPY . .
RUN ./dev setup --cuda && ./dev build && rm -rf /var/lib/apt/lists/*
ENTRYPOINT ["./dev"]
CMD ["gpu"]
