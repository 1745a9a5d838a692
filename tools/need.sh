#!/bin/sh
# Sees to it that the named things are there: need.sh go gcc torch pytest fashion-mnist
# On Debian as root it installs what is missing; elsewhere it says what to install.
set -eu

# The Python of the tests: the one that troupe itself would take.
python=${TROUPE_PYTHON:-/usr/bin/python3}

# have NAME reports whether a thing is there.
have() {
	case $1 in
	torch | numpy | pytest) "$python" -c "import $1" >/dev/null 2>&1 ;;
	fashion-mnist) [ -n "${FASHION_MNIST:-}" ] || [ -e /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz ] ;;
	*) command -v "$1" >/dev/null 2>&1 ;;
	esac
}

missing=
for name in "$@"; do
	have "$name" || missing="$missing $name"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
	packages=ca-certificates
	for name in $missing; do
		case $name in
		go) packages="$packages golang-go" ;; # any Go from 1.21 on fetches the one that go.mod asks for
		gcc) packages="$packages gcc libc6-dev" ;;
		torch | numpy | pytest) packages="$packages python3-$name" ;;
		fashion-mnist) packages="$packages dataset-fashion-mnist" ;;
		ip) packages="$packages iproute2" ;;
		*) packages="$packages $name" ;;
		esac
	done
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	# shellcheck disable=SC2086 # a list of words
	apt-get install -y -qq --no-install-recommends $packages >&2
	exit 0
fi

for name in $missing; do
	case $name in
	go) echo "need: Go 1.26 or newer is missing: see https://go.dev/doc/install" >&2 ;;
	gcc) echo "need: a C compiler is missing (the race detector links with it): on Fedora 'dnf install gcc', on Alpine 'apk add build-base'" >&2 ;;
	torch | numpy | pytest) echo "need: $python cannot import $name: install it, or set TROUPE_PYTHON to a Python that can" >&2 ;;
	fashion-mnist) echo "need: the data set Fashion-MNIST is missing: put its four IDX files into a folder and set FASHION_MNIST to that" >&2 ;;
	*) echo "need: $name is missing: install it with the system's package manager" >&2 ;;
	esac
done
exit 1
