# One image, three uses: `producer` (the default), `worker`, and any other `millrace` command.

FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
# Without install scripts: the `node` package would fetch a second Node, and nothing else needs one.
RUN npm ci --ignore-scripts
COPY tsconfig.json tsconfig.build.json ./
COPY scripts ./scripts
COPY bin ./bin
COPY src ./src
RUN npm run build && npm prune --omit=dev --ignore-scripts

FROM node:24-slim
ARG VERSION=0.0.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="millrace" \
      org.opencontainers.image.description="LLM agents as durable jobs on BullMQ and Redis" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# tini reaps children of tools; a Node process as PID 1 would leave them as zombies.
RUN apt-get update \
    && apt-get install -y --no-install-recommends tini \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /app
# A young generation of 16 MB: Node's default grows to four times that under load, for garbage alone.
ENV NODE_ENV=production \
    NODE_OPTIONS=--max-semi-space-size=16 \
    NODE_COMPILE_CACHE=/app/.compile-cache \
    MILLRACE_AGENTS=/agents \
    HOST=0.0.0.0
COPY --from=build /app/package.json ./
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/bin ./bin
COPY --from=build /app/dist ./dist
COPY LICENSE ./
# A new volume that is mounted on /artifacts takes over its owner.
RUN mkdir /agents /artifacts /app/.compile-cache && chown 1000:1000 /artifacts /app/.compile-cache
USER 1000
# The cache is keyed by user id and Node version, so it is filled here, as the user and with the Node that will run.
# Afterwards nothing under / has to be writable.
RUN node bin/millrace.mjs --version \
    && node --input-type=module -e "await import('/app/dist/producer/http/start-producer.js'); await import('/app/dist/worker/index.js')"
EXPOSE 8080 9464
ENTRYPOINT ["tini", "--", "node", "bin/millrace.mjs"]
CMD ["producer"]
