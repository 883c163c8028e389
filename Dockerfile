# CPU image; its steps are the README's commands. `docker build --tag lightning_sasv .`, then
# `docker run --rm --volume "$PWD/results:/app/results" lightning_sasv` makes Table 1 on the twin.
# PyTorch's CPU builds are a tenth of the size: --build-arg PIP_EXTRA_INDEX_URL=ADDRESS, as its
# installation page gives it.
FROM python:3.11
WORKDIR /app
COPY . .

ARG PIP_EXTRA_INDEX_URL
RUN make setup
RUN make table ARGS="--data.scale 0.02 --epochs 1 --seeds 1986 --replicates 0 --out /tmp/trial"

CMD ["make", "table"]
