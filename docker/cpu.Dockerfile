# Lamina without CUDA: docker build -f docker/cpu.Dockerfile -t lamina:cpu .
FROM debian:12
WORKDIR /lamina
COPY . .
RUN ./dev setup && ./dev build && rm -rf /var/lib/apt/lists/*
# For the MPI operator, whose launcher starts ranks in other containers by ssh, which passes no variables on: `python` finds the package by itself.
RUN apt-get update && apt-get install -y --no-install-recommends openssh-client openssh-server && rm -rf /var/lib/apt/lists/* && mkdir -p /run/sshd \
    && printf 'Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n' > /etc/ssh/ssh_config.d/ranks.conf \
    && echo 'StrictModes no' > /etc/ssh/sshd_config.d/ranks.conf \
    && for folder in .venv/lib/python3*/site-packages; do echo /lamina/build/python > $folder/lamina.pth; done \
    && printf '#!/bin/sh\nexec /lamina/.venv/bin/python "$@"\n' > /usr/local/bin/python && chmod +x /usr/local/bin/python && python -m lamina doctor
# Open MPI refuses root, and copies between processes that containers forbid, unless it is told.
ENV OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
ENTRYPOINT ["./dev"]
CMD ["train"]
