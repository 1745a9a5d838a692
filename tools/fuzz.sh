#!/usr/bin/env bash
# Fuzzes every fuzz test of the given packages, one after the other, each for
# the given time: fuzz.sh 30s ./...
set -euo pipefail

time=$1
shift
for package in "$@"; do
	# `go test -list` prints the names, then a line for the package.
	for name in $(go test -tags invariants -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
		echo "fuzz: $package $name for $time"
		go test -tags invariants -run '^$' -fuzz "^$name\$" -fuzztime "$time" "$package"
	done
done
