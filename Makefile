# `make` alone says what there is. Everything here runs from a fresh clone and
# brings what it needs: `make run` and `make test` are all that a new machine asks for.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# No C compiler is needed but for `make race`; the version is stamped by hand
# because a clone owned by someone else makes git, and with it go build, fail.
export CGO_ENABLED ?= 0
export GOFLAGS := $(filter-out -buildvcs=%,$(GOFLAGS)) -buildvcs=false

TOOL := go tool -modfile=tools/go.mod
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -X main.version=$(VERSION)
PYTEST := cd python && $${TROUPE_PYTHON:-/usr/bin/python3} -m pytest -q -p no:cacheprovider tests
SIMULATED := ./actors/... $(addsuffix /...,$(addprefix ./,$(wildcard sim)))

# Knobs, to be set on the command line.
PKG := ./...
SEEDS := 1000
COUNT := 3
FUZZTIME := 30s
MUTANTS :=
LONG :=

.PHONY: help build run generate fmt lint test py race sim cluster e2e gpu bench fuzz cover mutants verify need needpy

help: ## say what there is to make (this)
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

need:
	@tools/need.sh go git

needpy:
	@tools/need.sh torch numpy pytest fashion-mnist

py: needpy ## the tests of the Python packages
	$(PYTEST)

build: need ## build bin/troupe
	@tools/build.sh -ldflags '$(LDFLAGS)' -o bin/troupe ./cmd/troupe

run: build ## build, and train a network on handwritten digits (troupe demo)
	@bin/troupe demo

generate: need ## write the Go code of messages/*.proto
	$(TOOL) buf generate

fmt: need ## format all Go code
	$(TOOL) gofumpt -w .

lint: need ## go vet, staticcheck, formatting, message conventions
	go vet ./...
	go vet -tags invariants,netns ./...
	$(TOOL) staticcheck -tags invariants,netns ./...
	@files=$$($(TOOL) gofumpt -l .); [ -z "$$files" ] || { echo "lint: not formatted, run make fmt:" $$files >&2; exit 1; }
	$(TOOL) buf lint

test: need needpy ## all tests: unit, 200-seed simulations, Python, end to end (PKG=./tensor/... for a part)
	$(PYTEST)
	TROUPE_SEEDS=200 go test -vet=off -timeout 30m -tags invariants $(PKG)
	go test -vet=off -run '^(TestCheck|TestAThousandRounds|TestTheLargestJob)' ./internal/invariant $(if $(filter ./... ./sim%,$(PKG)),./sim)

race: need needpy ## the short tests under the race detector (needs a C compiler)
	@tools/need.sh gcc
	CGO_ENABLED=1 TROUPE_SEEDS=20 go test -vet=off -race -short -tags invariants $(PKG)

sim: need ## simulations over many seeds (SEEDS=1000)
	TROUPE_SEEDS=$(SEEDS) go test -vet=off -tags invariants -count=1 -timeout 60m $(SIMULATED)

cluster: need needpy ## nodes that are started at once, killed, frozen, cut off (as root: network namespaces; TROUPE_NO_NETNS=1: without; LONG=1: more)
	@[ -n "$${TROUPE_NO_NETNS:-}" ] || [ "$$(id -u)" = 0 ] || { echo "cluster: network namespaces take root; set TROUPE_NO_NETNS=1 to leave those tests out" >&2; exit 1; }
	@[ -n "$${TROUPE_NO_NETNS:-}" ] || tools/need.sh ip
	TROUPE_CLUSTER_RUNS=20 TROUPE_CLUSTER_LONG=$(LONG) go test -vet=off -tags invariants$$([ -n "$${TROUPE_NO_NETNS:-}" ] || echo ,netns) -count=1 -parallel 4 -timeout 40m \
		-skip '^TestE2E' ./cluster/... $$([ -n "$${TROUPE_NO_NETNS:-}" ] || echo ./cmd/troupe/e2e)

e2e: need needpy ## end-to-end tests, again and again (COUNT=3)
	go test -vet=off -tags invariants -count=$(COUNT) -timeout 30m -run '^TestE2E' -v ./cmd/...

gpu: build needpy ## LeNet and ResNet on the first CUDA device (fails where there is none)
	@$${TROUPE_PYTHON:-/usr/bin/python3} -c 'import sys, torch; sys.exit(0 if torch.cuda.is_available() else "gpu: this Python sees no CUDA device: install a torch with CUDA, or set TROUPE_PYTHON")'
	bin/troupe run examples/lenet.py -d $${FASHION_MNIST:-/usr/share/datasets/fashion-mnist} -e 3 -b 128 --lr 0.02 -p 2 --gpus 1
	bin/troupe run examples/resnet.py -d $${FASHION_MNIST:-/usr/share/datasets/fashion-mnist} -e 3 -b 128 --lr 0.05 -p 2 --gpus 1

bench: need needpy ## benchmarks (PKG=./bench/... for rounds per second beside the bare actor library)
	go test -vet=off -run '^$$' -bench . -benchmem $(PKG)

fuzz: need ## every fuzz test for a while (FUZZTIME=30s)
	@tools/fuzz.sh $(FUZZTIME) $$(go list $(PKG))

cover: need ## test coverage by function, in bin/cover.html too
	@mkdir -p bin
	TROUPE_SEEDS=20 go test -vet=off -short -tags invariants -coverpkg=./... -coverprofile bin/cover.out $(PKG)
	@go tool cover -html bin/cover.out -o bin/cover.html
	@go tool cover -func bin/cover.out | tail -n 1

mutants: need ## break the code on purpose, one patch at a time, and see the named test fail (MUTANTS=name)
	@go run ./internal/mutants/cmd $(MUTANTS)

verify: lint ## all that a commit must pass beside the tests
	@tools/generated.sh
	go mod tidy -diff
	go -C tools mod tidy -diff
	go test -vet=off -count=1 ./internal/archtest
	@dead=$$($(TOOL) deadcode -test -tags invariants,netns ./...); [ -z "$$dead" ] || { echo "verify: neither a program nor a test reaches this:" >&2; echo "$$dead" >&2; exit 1; }
