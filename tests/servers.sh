# Starts servers for the scripts that source this, and stops them when the script ends.
# shellcheck shell=bash

servers=()
start_seconds=60

fail() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

usage() {
    sed -n '2,/^set -/{/^#/s/^# \{0,1\}//p}' "$0"
}

# shellcheck disable=SC2317 # called by the trap
stop_servers() {
    local server
    for server in ${servers[@]+"${servers[@]}"}; do kill "$server" 2>/dev/null || true; done
    # A graceful shutdown may wait for open streams, and some are left open: give it five seconds.
    for server in ${servers[@]+"${servers[@]}"}; do
        for _ in {1..50}; do
            kill -0 "$server" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    done
    servers=()
}
trap stop_servers EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# start_server LOG COMMAND...: waits until it prints `listening on http://…`, and leaves that address in `url`.
start_server() {
    local log=$1 tenths server
    shift
    "$@" >"$log" 2>&1 </dev/null &
    server=$!
    servers+=("$server")
    for ((tenths = 0; tenths < start_seconds * 10; tenths++)); do
        url=$(sed -n 's|.*listening on \(http://[^[:space:]]*\).*|\1|p' "$log" | head -n 1)
        [[ $url ]] && return
        kill -0 "$server" 2>/dev/null || { cat "$log" >&2; fail "ended before it listened: $*"; }
        sleep 0.1
    done
    cat "$log" >&2
    fail "printed no line 'listening on http://…' within $start_seconds seconds: $*"
}

# start_example LOG NAME ARGUMENT...: the same for an example of this crate, with all features as tests build it.
start_example() {
    local log=$1 name=$2
    shift 2
    cargo build --quiet --all-features --example "$name"
    # cargo replaces itself by the example, so its process id is the server's.
    start_server "$log" cargo run --quiet --all-features --example "$name" -- "$@"
}

# start_gateway LOG UPSTREAM: the example `gateway` in front of UPSTREAM.
start_gateway() {
    start_example "$1" gateway --upstream "$2" --listen 127.0.0.1:0
}
