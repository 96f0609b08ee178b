#!/bin/sh
# Install the packages of the locks into .venv, for `make install` and the images. No version is resolved.
#   PYTHON=python3.12   another Python
#   TORCH=auto          torch's build: cpu, cuda, or auto: cuda with an NVIDIA driver, else cpu if it is available
#   VENV=.venv          the folder to install into
#   DEV=no PROJECT=no   without the packages for tests and checks; without bertline itself, for a layer of an image
# shellcheck disable=SC2086  # options, links and locks are lists
set -eu
cd "$(dirname "$0")"
PYTHON=${PYTHON:-python3} TORCH=${TORCH:-auto} VENV=${VENV:-.venv} DEV=${DEV:-yes} PROJECT=${PROJECT:-yes}
LOG=$(mktemp)
trap 'rm -f "$LOG"' EXIT

stop() {
    echo "install: $1" >&2
    exit 1
}

# Run a command. If it fails, print what to do about it, or else its output.
try() {
    "$@" >"$LOG" 2>&1 && return
    if grep -q -i -E "no space left|os error 28|errno 28" "$LOG"; then
        stop "no space left for $VENV or the cache of pip and uv; the install needs 4 GB, with CUDA 8 GB"
    elif grep -q -i -E "error sending request|dns error|connection refused|timed out|Max retries|Temporary failure|No matching distribution found for uv" "$LOG"; then
        stop "the package index does not answer; check the network, or name an index in PIP_INDEX_URL and UV_DEFAULT_INDEX"
    fi
    cat "$LOG" >&2
    stop "'$*' failed; its output is above"
}

# Whether uv finds a CPU build of torch with these options.
has_cpu_build() {
    UV_HTTP_TIMEOUT=10 "$VENV/bin/uv" pip install --dry-run --reinstall --no-deps --python "$VENV/bin/python" "$@" "$PIN" \
        2>&1 | grep -q "+ torch==.*+cpu"
}

version_of() {
    "$1" -c 'import sys; print("%s %d.%d" % ((sys.implementation.name,) + sys.version_info[:2]))'
}

check_python() {
    [ "$(uname -s)" = Linux ] || stop "bertline runs on Linux; this is $(uname -s)"
    command -v "$PYTHON" >/dev/null || stop "no '$PYTHON' here; name a Python from 3.11 to 3.14: make install PYTHON=python3.12"
    is=$(version_of "$PYTHON")
    case $is in
        "cpython 3.11" | "cpython 3.12" | "cpython 3.13" | "cpython 3.14") ;;
        *) stop "$PYTHON is $is; bertline needs CPython 3.11 to 3.14: make install PYTHON=python3.12" ;;
    esac
}

make_environment() {
    if [ -x "$VENV/bin/pip" ]; then
        asked=$is is=$(version_of "$VENV/bin/python")
        [ "$is" = "$asked" ] || echo "install: $VENV keeps $is; remove it to use $asked"
    elif ! "$PYTHON" -m venv "$VENV" >"$LOG" 2>&1; then
        rm -rf "$VENV"
        cat "$LOG" >&2
        stop "$PYTHON -m venv failed; on Debian and Ubuntu: apt-get install python3-venv"
    fi
}

# Set `options` so that uv finds the chosen build, and `locks` to the locks that it needs.
choose_torch() {
    PIN=$(grep "^torch==" requirements.lock) options="" locks="-r requirements.lock" build=cpu
    [ "$DEV" = no ] || locks="$locks -r requirements-dev.lock"
    [ "$TORCH" != auto ] || [ ! -e /proc/driver/nvidia/version ] || TORCH=cuda
    case $TORCH in
        auto | cpu)
            links=$(printf -- " --find-links %s" ${PIP_FIND_LINKS:-})  # pip's form: several, by spaces
            if [ -n "${PIP_FIND_LINKS:-}" ] && has_cpu_build $links; then
                options=$links
            elif has_cpu_build --torch-backend cpu; then
                options="--torch-backend cpu"
            elif [ "$TORCH" = cpu ]; then
                stop "no CPU build of $PIN for $is was found; put its wheel into a folder that PIP_FIND_LINKS names, or set TORCH=cuda"
            else
                echo "install: no CPU build of $PIN for $is was found; taking the CUDA build, which runs on CPUs too but needs 4 GB more"
                build=cuda
            fi ;;
        cuda) build=cuda ;;
        *) stop "TORCH=$TORCH: no such build; there are: auto, cpu, cuda" ;;
    esac
    [ $build = cpu ] || locks="$locks -r requirements-cuda.lock"
}

# check_disk GB: stop if the first install would not fit.
check_disk() {
    [ ! -e "$VENV/.installed" ] || return 0
    place=$(cd "$(dirname "$VENV")" && pwd)
    free=$(df -Pk "$place" | awk 'END {print int($4 / 1000 / 1000)}')
    [ "$free" -ge "$1" ] || stop "$place has $free GB free; the install needs $1 GB"
}

check_python
check_disk 4
make_environment
try "$VENV/bin/pip" install --quiet --disable-pip-version-check "$(grep '^uv==' requirements-dev.lock)"
choose_torch
[ $build = cpu ] || check_disk 8
if [ -e "$VENV/.installed" ] && [ "$(cat "$VENV/.installed")" != $build ]; then
    options="$options --reinstall-package torch"
fi
uv_install() {
    try "$VENV/bin/uv" pip install --python "$VENV/bin/python" --no-deps "$@"
}
# packages without a wheel (ipadic, unidic-lite, antlr4) are built by the setuptools of the lock, not by the newest
uv_install "$(grep '^setuptools==' requirements.lock)"
uv_install --no-build-isolation --compile-bytecode $options $locks
[ $PROJECT = no ] || uv_install --no-build-isolation --editable .
try "$VENV/bin/uv" pip check --python "$VENV/bin/python"
echo $build >"$VENV/.installed"
