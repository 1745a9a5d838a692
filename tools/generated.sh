#!/usr/bin/env bash
# Fails unless the generated Go code beside messages/*.proto is what they generate.
set -euo pipefail

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/have" "$scratch/want"
cp messages/*.pb.go "$scratch/have"
go tool -modfile=tools/go.mod buf generate -o "$scratch/out"
cp "$scratch"/out/messages/*.pb.go "$scratch/want"
if ! diff -r "$scratch/have" "$scratch/want"; then
	echo "verify: generated code differs from messages/*.proto: run make generate (and remove a .pb.go that lost its .proto)" >&2
	exit 1
fi
