SHELL := /bin/bash
.DEFAULT_GOAL := help

.PHONY: help
help: ## say what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: generate
generate: ## write Go code from messages/*.proto
	@go -C tools run ./protogen $(wildcard messages/*.proto)
