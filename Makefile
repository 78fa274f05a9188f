# Needs Node >= 20.19, npm and make. Everything else is installed by the targets themselves.
.DEFAULT_GOAL := help
.PHONY: help demo test test-matrix test-docs test-packages test-kafka test-latest test-servers build vet docs bench proof services clean

installed := node_modules/.installed

help: ## what the targets do
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

$(installed): package-lock.json package.json $(wildcard packages/*/package.json)
	@node scripts/check-node.mjs
	@echo 'Installing the dependencies; the first time takes a minute or two.' >&2
	@npm ci --no-audit --no-fund --loglevel=error
	@touch $(installed)

demo: $(installed) ## run the main job: orders through duplicates, failures and an outage, each applied once; ARGS="--orders 100 …" for options, DASHBOARD=1 to watch it in a browser
	@node scripts/demo.mjs $(ARGS) $(if $(DASHBOARD),--dashboard)

test: $(installed) ## set up everything and run the tests
	@node scripts/dashboard-page.mjs
	@scripts/services run -- node scripts/test.mjs

test-matrix: $(installed) ## the same tests in every other combination: each ORM and client, the demo on every store and broker, each HTTP server; the mutants of the suites
	@node scripts/pg-native.mjs
	@scripts/services run --with rabbitmq4 -- node scripts/test.mjs --config vitest.matrix.config.ts

test-docs: $(installed) ## what users read and copy: the examples of the READMEs and guides, the example services, the code that create-ackord writes
	@node scripts/dashboard-page.mjs
	@scripts/services run -- node scripts/test.mjs --config vitest.docs.config.ts

test-packages: $(installed) ## what users get: packed packages, the projects of create-ackord, the pages of docs/start, the packages on Bun and Deno; ONLY="sqlite …" for some
	@scripts/services run --only postgres,mariadb,redis,rabbitmq,nats,kafka -- node scripts/test-packages.mjs $(ONLY)

test-kafka: $(installed) ## all tests of Kafka on a real broker: the one that KAFKA_URL names, or one that is started from the unpacked Kafka in KAFKA_HOME (with Java 17)
	@test -n "$$KAFKA_URL$$KAFKA_HOME" || { echo 'Set KAFKA_URL to a broker, or KAFKA_HOME to the directory of an unpacked Kafka.' >&2; exit 2; }
	@node scripts/dashboard-page.mjs
	@scripts/services run -- node scripts/test.mjs packages/kafka/ test/pipeline/ test/dashboard/dead-letters packages/cli/test/dead-letters/dead-letters $(if $(KAFKA_HOME),test/faults/broker-faults)

test-latest: $(installed) ## the same tests on the newest Node LTS
	@scripts/with-latest-node node scripts/pg-native.mjs
	@node scripts/dashboard-page.mjs
	@scripts/with-latest-node scripts/services run -- node scripts/test.mjs

test-servers: $(installed) ## the suites of stores and brokers on other versions of their servers; ONLY="mysql-9.7 …" for some; writes docs/compatibility.md
	@node scripts/test-servers.mjs $(ONLY)

build: $(installed) ## compile all packages
	npx tsc -b
	@node scripts/dashboard-page.mjs

vet: $(installed) ## lint, types, dead code, documents, packed packages; npm audit as a report
	@node scripts/vet.mjs

docs: $(installed) ## build the documents as a site, into .cache/site; dead links fail it
	@node scripts/docs.mjs

bench: $(installed) ## all benchmarks
	@scripts/services run --only postgres,mariadb,redis,rabbitmq,nats -- npm run -s bench

proof: $(installed) ## what takes too long for the tests: all crashes, faults, simulations and loads; writes docs/guarantees.md
	@node scripts/dashboard-page.mjs
	@scripts/services run --with rabbitmq4 -- node scripts/proof.mjs

services: $(installed) ## start the servers that tests need and keep them until Ctrl-C
	@scripts/services up

clean: ## remove what was built
	rm -rf node_modules .cache packages/*/dist packages/dashboard/dist-page bench/dist proof/dist examples/*/dist packages/*/*.tsbuildinfo bench/*.tsbuildinfo proof/*.tsbuildinfo examples/*/*.tsbuildinfo
