# `make` lists what there is. Everything works in a fresh clone with Go, and with Docker for the tests that use it.

LINT_VERSION := v2.15.0
LINT         := bin/golangci-lint-$(LINT_VERSION)/golangci-lint
VULN_VERSION := v1.1.4
VULN         := bin/govulncheck-$(VULN_VERSION)/govulncheck
ACTIONLINT_VERSION := v1.7.12
ACTIONLINT   := bin/actionlint-$(ACTIONLINT_VERSION)/actionlint
APIDIFF_VERSION := v0.0.0-20261113113407-e3970619a1a4
APIDIFF      := bin/apidiff-$(APIDIFF_VERSION)/apidiff
GREMLINS_VERSION := v0.6.0
GREMLINS     := bin/gremlins-$(GREMLINS_VERSION)/gremlins
PROMTOOL_VERSION := v0.316.0
PROMTOOL     := bin/promtool-$(PROMTOOL_VERSION)/promtool
NFPM_VERSION := v2.45.2
NFPM         := bin/nfpm-$(NFPM_VERSION)/nfpm

# ./... alone covers only the module in this folder. PUBLIC has an API that others rely on; commands and internal packages
# among them are left out.
CONTRIB      := $(patsubst %/go.mod,%,$(wildcard contrib/*/go.mod))
MODULES      := . cmd/redlock integration $(CONTRIB) integration/manifests integration/peers
PUBLIC       := ./... $(CONTRIB:%=./%/...)
PACKAGES     := $(PUBLIC) ./cmd/redlock/... ./integration/...

# The versions that users of the command get, and the library of this commit.
COMMAND      := GOWORK=$(CURDIR)/cmd/redlock/own.work go -C cmd/redlock

# The module of the other libraries needs a newer Go than the library does, and so is not in the workspace.
PEERS        := GOWORK=off go -C integration/peers

# The module that reads manifests is not in the workspace either, whose modules would get the versions of Kubernetes. older.mod has an
# older k8s.io/api.
MANIFESTS    := GOWORK=off go -C integration/manifests

# The race detector needs a C compiler. A person without one gets the tests all the same; CI must have one.
CC_FOUND     := $(shell command -v $(firstword $(shell go env CC)))
RACE         := -race=$(if $(CC_FOUND)$(filter true,$(CI)),true,false)

# The race detector waits for a second at the end of each package's tests, for races in what still runs. Nothing does.
export GORACE ?= atexit_sleep_ms=100

# Runs the tests, and says what it does. It is in the module of the tests on real servers.
SUITE        := go -C integration run ./suite -C ..

# CI demands coverage of the same run.
COVERAGE     := $(if $(filter true,$(CI)),coverage.out)

# These decide and do nothing else: no goroutine, no clock, no connection.
PURE         := internal/quorum internal/verdict internal/session internal/undo internal/lease internal/guard internal/claim internal/resp internal/nodelist internal/oneline

DOCUMENTS    := README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md docs $(wildcard contrib/*/README.md)

# Five minutes for what comes over the network and is not needed, where the machine can count them.
BOUNDED      := $(if $(shell command -v timeout),timeout 300)

# The oldest version of Go that is promised.
OLDEST       := $(shell awk '$$1 == "go" { print $$2 }' go.mod)

TESTFLAGS    ?=
FUZZTIME     ?= 20s
SIM          ?= 10000
SEEDS        ?= 1 2 3 4 5 6 7 8 9 10
SOAK         ?= 10m
BENCH        ?= .
BENCHFLAGS   ?=
BENCHTIME    ?= 1s

.DEFAULT_GOAL := help
.NOTPARALLEL:

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## see it work: three masters inside of one process, about 15 seconds
	go run ./cmd/redlock demo

.PHONY: build
build: ## build the command: bin/redlock
	$(COMMAND) build -o $(CURDIR)/bin/redlock .

.PHONY: man
man: ## write the man pages of the command: bin/man
	mkdir -p bin/man
	$(COMMAND) test -count=1 -run '^TestEverySubcommandHasAManPage$$' . -man $(CURDIR)/bin/man

.PHONY: completion
completion: ## write the scripts with which shells complete the command's words: bin/completion
	mkdir -p bin/completion
	for shell in bash zsh fish; do $(COMMAND) run . completion $$shell >bin/completion/redlock.$$shell || exit; done

.PHONY: test
test: ## the tests that need no Docker, then those on real servers
	$(SUITE) $(COVERAGE:%=-cover %) -- $(RACE) $(TESTFLAGS)
	$(if $(COVERAGE),scripts/cover coverage.out)

.PHONY: test-unit
test-unit: ## the tests that need no Docker, with the dependencies that users get (TESTFLAGS='-run Name -v')
	$(SUITE) -only unit $(COVERAGE:%=-cover %) -- $(RACE) $(TESTFLAGS)
	$(if $(COVERAGE),scripts/cover coverage.out)

.PHONY: test-late
test-late: ## redlock, the command and real servers, with one of three nodes that executes late, as seeds decide: SEEDS='1 2 3'
	$(SUITE) -late '$(SEEDS)' -- $(TESTFLAGS)

.PHONY: test-oldest
test-oldest: ## the tests that need no Docker, with the oldest Go that is promised: that of go.mod
	GOWORK=off GOTOOLCHAIN=go$(OLDEST) go test -timeout 20m $(TESTFLAGS) ./...
	GOTOOLCHAIN=go$(OLDEST) $(COMMAND) test -timeout 20m $(TESTFLAGS) ./...
	for module in $(CONTRIB); do GOWORK=off GOTOOLCHAIN=go$(OLDEST) go -C $$module test -timeout 20m $(TESTFLAGS) ./... || exit; done

.PHONY: test-integration
test-integration: ## the tests against real Redis servers in Docker containers, under the race detector
	$(SUITE) -only servers -- $(RACE) $(TESTFLAGS)

.PHONY: test-peers
test-peers: ## the tests beside other libraries: clients of several libraries on real servers, and the faults in which others were seen to fail
	scripts/integration --peers $(RACE) $(TESTFLAGS)

.PHONY: test-manifests
test-manifests: ## check deploy/: manifests for Kubernetes, and units of systemd
	$(MANIFESTS) test $(TESTFLAGS) ./...

.PHONY: test-manifests-older
test-manifests-older: ## the same by the types of an older version of Kubernetes
	$(MANIFESTS) test -modfile=older.mod $(TESTFLAGS) ./...

.PHONY: test-alerts
test-alerts: $(PROMTOOL) ## check the alerts for Prometheus, and test when they fire: docs/telemetry/alerts.yaml
	$(PROMTOOL) check rules docs/telemetry/alerts.yaml
	$(PROMTOOL) test rules docs/telemetry/alerts_test.yaml

.PHONY: peers
peers: ## what this library and others do in those faults, as the table of docs/comparison-failures.md: 3 minutes
	$(PEERS) run ./failures

.PHONY: faults
faults: ## every fault on real servers x 3 and 5 nodes x kinds of work x contenders, and docs/results/faults.md: about 35 minutes
	scripts/faults $(TESTFLAGS)

.PHONY: matrix
matrix: ## the integration tests on Redis 6, 7, 8, Valkey 8 and 9: about half an hour
	scripts/matrix $(TESTFLAGS)

.PHONY: matrix-short
matrix-short: ## a part of them on each, about a minute
	scripts/matrix -short $(TESTFLAGS)

.PHONY: redis-image
redis-image: ## build an image of Redis from the distribution's package, for machines without an image registry
	scripts/redis-image

.PHONY: sql-images
sql-images: ## build images of PostgreSQL and MariaDB from the distribution's packages, for machines without an image registry
	scripts/sql-image postgres
	scripts/sql-image mariadb

.PHONY: bench
bench: ## measure this library beside others, and write docs/benchmarks.md: about 35 minutes (BENCHFLAGS='--only fault'; a run that writes nothing: BENCHFLAGS="--quick --out ''")
	$(PEERS) run ./bench --out ../../docs $(BENCHFLAGS)

.PHONY: benchmarks
benchmarks: ## Go benchmarks, those against real servers included (BENCH=regexp BENCHTIME=1s)
	go test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -benchmem ./...
	scripts/integration -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -benchmem

.PHONY: fuzz
fuzz: ## run every fuzz test for a short time (FUZZTIME=20s each)
	scripts/fuzz $(FUZZTIME)

.PHONY: sim
sim: ## play SIM=10000 scenarios with faults drawn from seeds, and the negative controls: minutes
	SIM_SCENARIOS=$(SIM) go test -race=false -count=1 -timeout 3h -v $(TESTFLAGS) ./integration/sim

.PHONY: sim-traces
sim-traces: ## make sim, and have the program of the proof read what masters and clients did in each scenario: needs Coq, as make proof does
	$(MAKE) -C proof reader
	rm -rf bin/traces && mkdir -p bin/traces
	SIM_TRACE=$(CURDIR)/bin/traces $(MAKE) sim
	proof/check/sim bin/traces

.PHONY: trace-mutants
trace-mutants: ## take the guards of exclusion and fences out one by one, count what oracles and the program of the proof see, and write docs/results/traces.md: half an hour
	scripts/trace-mutants

.PHONY: soak
soak: ## play scenarios for as long as it is told (SOAK=10m)
	go test -timeout 0 -v -run TestEveryPromise ./integration/sim -sim.soak $(SOAK) $(TESTFLAGS)

.PHONY: stress
stress: ## run make test ten times, and ten times beside four busy processes, and write docs/results/stress.md: hours, and it resumes
	scripts/stress

.PHONY: cover
cover: ## the tests that need no Docker, with their coverage, which has to be enough: coverage.out
	go test $(RACE) -timeout 20m -coverprofile=coverage.out -covermode=atomic $(TESTFLAGS) ./...
	scripts/cover coverage.out

.PHONY: fmt
fmt: $(LINT) ## format the code
	$(LINT) fmt

.PHONY: lint
lint: $(LINT) ## lint all modules of the workspace
	$(LINT) run $(PACKAGES)

.PHONY: lint-peers
lint-peers: $(LINT) ## lint the module of the other libraries
	cd integration/peers && GOWORK=off $(abspath $(LINT)) run ./...

.PHONY: lint-workflows
lint-workflows: $(ACTIONLINT) ## lint the workflows in .github
	$(ACTIONLINT) -shellcheck= -pyflakes=

.PHONY: lint-manifests
lint-manifests: $(LINT) ## lint the module that checks deploy/
	cd integration/manifests && GOWORK=off $(abspath $(LINT)) run ./...

# Nothing is run. The code that vet compiles for its types is not optimized, which takes a third of the time less. CI asks for the
# race detector in GOFLAGS, which other platforms do not have here.
.PHONY: vet-platforms
vet-platforms: ## vet the code and its tests for other platforms: three minutes of a processor, and seconds the next time
	for platform in linux/386 linux/arm64 windows/amd64 darwin/arm64; do \
		GOFLAGS= GOOS=$${platform%/*} GOARCH=$${platform#*/} go vet -gcflags=all='-N -l' ./... ./cmd/redlock/... || exit; done

.PHONY: tidy
tidy: ## go mod tidy in all modules
	@for module in $(MODULES); do (set -x; scripts/mod-tidy $$module) || exit 1; done
	$(MANIFESTS) mod tidy -modfile=older.mod

.PHONY: tidy-check
tidy-check: ## fail where go mod tidy would change something, or where the modules' go lines differ
	scripts/tidy-check $(MODULES)

.PHONY: hazards
hazards: ## check that docs/dev/hazards.md names every known hazard, docs/dev/comparison.md every feature, docs/versions.md golden tests, and all of them tests that exist
	scripts/hazards

.PHONY: probes
probes: ## measure memory and the cost of waiting, and write docs/results/probes.md: about four minutes on a machine that does nothing else
	scripts/probes

.PHONY: mutants
mutants: ## take the guards out of the code one by one, show that a test fails for each, and write docs/results/mutants.md: about an hour, and it resumes
	scripts/mutants

.PHONY: mutate
mutate: $(GREMLINS) ## change each condition and number of the pure packages, and write docs/results/mutation.md: what their tests notice
	scripts/mutate $(GREMLINS) $(PURE)

.PHONY: mutants-check
mutants-check: ## check that the guards of scripts/mutants.txt fit the code
	scripts/mutants -n
	scripts/trace-mutants -n

.PHONY: docs-check
docs-check: ## check the documents: links, code that compiles, commands and names of the API that exist
	go run ./internal/tools/docscheck $(DOCUMENTS)

# The default is a part of the tests that takes half a minute.
LOCKTESTS    ?= Submit|Undo|Handoff|Frozen|Queue
# These count allocations, or take too long with mutexes that record their order.
LOCKSKIP     := Alloc|Heap|Sim

.PHONY: lock-order
lock-order: ## check that tests lock mutexes in the order of docs/dev/architecture.md (LOCKTESTS=. for all tests: 5 minutes)
	go run ./internal/tools/lockorder docs/dev/architecture.md -- ./redlock ./pool/... ./internal/vote ./internal/waiting -timeout 20m -run '$(LOCKTESTS)' -skip '$(LOCKSKIP)'

.PHONY: api
api: ## write down the exported API, for review: api/*.txt
	go run ./internal/tools/apilist api $(PUBLIC)

.PHONY: api-check
api-check: ## fail where the exported API is not what api/*.txt says
	go run ./internal/tools/apilist bin/api $(PUBLIC)
	diff -r -U 0 api bin/api || { echo 'the exported API is not what api/ says: make api writes it down' >&2; exit 1; }

.PHONY: api-diff
api-diff: $(APIDIFF) ## print which changes of the exported API since BASE=COMMIT break programs, and which do not
	scripts/apidiff $(APIDIFF) '$(BASE)'

# govulncheck can't read code for a newer Go than the one that built it.
.PHONY: vuln
vuln: ## look for known vulnerabilities in all modules, in the public database or in VULN_DB=folder, where it can be reached
	@test -x $(VULN) || GOBIN=$(CURDIR)/$(dir $(VULN)) GOFLAGS= GOTOOLCHAIN=$$($(PEERS) env GOVERSION) \
		$(BOUNDED) go install golang.org/x/vuln/cmd/govulncheck@$(VULN_VERSION) || true
	scripts/vuln $(VULN) $(MODULES)

.PHONY: modules-check
modules-check: ## install every module of this commit, and the command, as a user does, from a proxy of files
	scripts/modules check

.PHONY: notice-check
notice-check: ## fail where NOTICE is not what the modules' licences say
	scripts/notice check

.PHONY: release
release: $(NFPM) ## make and sign the files of a release, and publish nothing: VERSION=v1.2.3 RELEASE_KEY=file
	scripts/release $(CURDIR)/$(NFPM) '$(VERSION)'

.PHONY: release-check
release-check: $(NFPM) ## build this commit as for a release, twice, compare, and try its archive, deb, rpm and image
	scripts/release $(CURDIR)/$(NFPM) --try

.PHONY: check
check: hazards mutants-check docs-check api-check tidy-check lint vet-platforms test-unit ## what to run before a commit: static checks, lint, and the tests that need no Docker

# What is quick and fails often comes first. The linter takes minutes to build: it does so while the tests wait for servers.
# What imports much is compiled once for the race detector, and once without it for the tests on real servers. The linter vets all packages, but for the files of tests that run
# without the detector: `make lint` has those, too.
.PHONY: ci
ci: export GOFLAGS := $(GOFLAGS) $(filter-out -race=false,$(RACE))
ci: ## what CI runs: about 15 minutes
	scripts/together '$(MAKE) hazards mutants-check docs-check' '$(MAKE) tidy-check api-check notice-check lint-workflows' '$(MAKE) proof'
	scripts/together 'nice -n 19 $(MAKE) lint vet-platforms fuzz FUZZTIME=5s' '$(MAKE) test sim-traces SIM=1000 TESTFLAGS=-vet=off && $(MAKE) test-manifests TESTFLAGS=-vet=off'

.PHONY: proof
proof: ## check the proof of exclusion and fences from nothing, by Coq, and the program that reads traces: half a minute
	@command -v coqc >/dev/null || { echo "proof: there is no coqc: install Coq 8.16 (coq in Debian)" >&2; exit 1; }
	$(MAKE) -C proof -j 2
	$(MAKE) -C proof traces

.PHONY: nightly
nightly: ## what is too long for CI, part by part, and its page: hours (NIGHTLY='sim soak' for some parts)
	scripts/nightly $(NIGHTLY)

$(LINT):
	GOBIN=$(CURDIR)/$(@D) GOFLAGS= go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

$(ACTIONLINT):
	GOBIN=$(CURDIR)/$(@D) GOFLAGS= go install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION)

$(GREMLINS):
	GOBIN=$(CURDIR)/$(@D) GOFLAGS= go install github.com/go-gremlins/gremlins/cmd/gremlins@$(GREMLINS_VERSION)

$(NFPM):
	GOBIN=$(CURDIR)/$(@D) GOFLAGS= go install github.com/goreleaser/nfpm/v2/cmd/nfpm@$(NFPM_VERSION)

$(APIDIFF):
	GOBIN=$(CURDIR)/$(@D) GOFLAGS= go install golang.org/x/exp/cmd/apidiff@$(APIDIFF_VERSION)

# promtool is built from its module. It needs no service discovery, and without it is built in less time.
$(PROMTOOL):
	GOBIN=$(CURDIR)/$(@D) GOFLAGS= go install -tags remove_all_sd github.com/prometheus/prometheus/cmd/promtool@$(PROMTOOL_VERSION)
