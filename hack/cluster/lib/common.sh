# What the other files use to speak, to wait and to exclude each other. Sourced by cluster.sh.
# shellcheck shell=bash

# say TEXT... prints a line of progress with the seconds since the start.
say() {
    local us=$((${EPOCHREALTIME/[.,]/} - started_us))
    printf '[%3d.%ds] %s\n' $((us / 1000000)) $((us / 100000 % 10)) "$*" >&2
}
started_us=${EPOCHREALTIME/[.,]/}

fail() {
    echo "cluster.sh: $*" >&2
    exit 1
}

fail_usage() {
    echo "cluster.sh: $*; see: $0 help" >&2
    exit "$exit_usage"
}

fail_machine() {
    echo "cluster.sh: $*" >&2
    exit "$exit_machine"
}

# lock DIRECTORY waits until no other cluster.sh holds it; it is held until this process ends. A directory
# that is kept anyway leaves no lock file behind. Locking twice is locking once.
lock() {
    [[ -n ${locks[$1]:-} ]] && return
    local fd
    mkdir -p "$1"
    exec {fd}<"$1"
    if ! flock --nonblock "$fd"; then
        say "waiting for another cluster.sh to finish"
        flock "$fd"
    fi
    locks[$1]=$fd
}
declare -A locks=()

# without_files COMMAND... runs a command that outlives this script, and so must not hold its locks, nor those of whoever
# called it.
without_files() {
    local fd
    for fd in "/proc/$BASHPID/fd/"*; do
        fd=${fd##*/}
        ((fd <= 2)) || exec {fd}<&-
    done
    exec "$@"
}

# wait_until SECONDS COMMAND... repeats the command until it succeeds; false when the time is over.
wait_until() {
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < end)) || return 1
        sleep 0.1
    done
}

# key_of FILE... prints a short name for their contents.
key_of() {
    cat "$@" | sha256sum | cut -c1-16
}

# put FILE makes its standard input the content of a file only root may read. A file that has that content
# already is not touched: some programs end themselves when their configuration file is.
put() {
    local unfinished=$1.new
    (umask 077 && cat >"$unfinished")
    if cmp -s "$unfinished" "$1"; then
        rm "$unfinished"
    else
        mv "$unfinished" "$1"
    fi
}
