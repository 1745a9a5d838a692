#!/bin/sh
# Sees to it that the named programs are there: need.sh go git gcc
# On Debian as root it installs what is missing; elsewhere it says what to install.
set -eu

missing=
for program in "$@"; do
	command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
	packages=ca-certificates
	for program in $missing; do
		case $program in
		go) packages="$packages golang-go" ;; # any Go from 1.21 on fetches the one that go.mod asks for
		gcc) packages="$packages gcc libc6-dev" ;;
		*) packages="$packages $program" ;;
		esac
	done
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	# shellcheck disable=SC2086 # a list of words
	apt-get install -y -qq --no-install-recommends $packages >&2
	exit 0
fi

for program in $missing; do
	case $program in
	go) echo "need: Go 1.26 or newer is missing: see https://go.dev/doc/install" >&2 ;;
	gcc) echo "need: a C compiler is missing (the race detector links with it): on macOS 'xcode-select --install', on Fedora 'dnf install gcc', on Alpine 'apk add build-base'" >&2 ;;
	*) echo "need: $program is missing: install it with the system's package manager" >&2 ;;
	esac
done
exit 1
