#!/usr/bin/env bash
# Builds like `go build`, and says how far it is: a cold build takes minutes, and
# `go build` alone stays silent. build.sh -o bin/troupe ./cmd/troupe
set -euo pipefail

# progress condenses the package names of `go build -v` into one line on a
# terminal, and into a line every five seconds elsewhere. The rest passes through.
progress() {
	local line count=0 said=0
	while IFS= read -r line; do
		case $line in
		'go: downloading '*) line="fetching ${line#go: downloading }" ;;
		*[!A-Za-z0-9/._~-]*) [ ! -t 2 ] || printf '\r\033[K' >&2; printf '%s\n' "$line" >&2; continue ;;
		*) count=$((count + 1)) ;;
		esac
		if [ -t 2 ]; then
			printf '\r\033[Kbuilding: %d packages, %d s: %.50s' "$count" "$SECONDS" "$line" >&2
		elif [ "$SECONDS" -ge $((said + 5)) ]; then
			said=$SECONDS
			printf 'building: %d packages, %d s: %s\n' "$count" "$SECONDS" "$line" >&2
		fi
	done
	[ ! -t 2 ] || printf '\r\033[K' >&2
}

go build -v "$@" 2>&1 | progress
