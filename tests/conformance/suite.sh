# The official conformance suite, for the scripts that source this: installs and runs it.
# The suite and the Node.js it runs on are installed once under target/conformance; results and logs go there too.
# shellcheck shell=bash

# shellcheck source=tests/servers.sh
source tests/servers.sh

revision=2026-07-28
suite_version=0.2.0-alpha.12
node_major=22

home=${CARGO_TARGET_DIR:-target}/conformance
modules=$home/suite/node_modules
node=$modules/node/bin/node
suite=$modules/@modelcontextprotocol/conformance

installed() {
    [[ -x $node && -f $suite/package.json ]] || return 1
    [[ $("$node" --version) == "v$node_major."* ]] || return 1
    # shellcheck disable=SC2016 # the dollar belongs to JavaScript
    [[ $("$node" -p 'JSON.parse(fs.readFileSync(process.argv[1])).version' "$suite/package.json") == "$suite_version" ]]
}

install_suite() {
    mkdir -p "$home"
    installed && return
    command -v npm >/dev/null || fail "npm is needed to install the suite, and is not on the PATH"
    printf 'installing the suite %s and Node.js %s into %s\n' "$suite_version" "$node_major" "$home/suite"
    rm -rf "$home/suite"
    mkdir -p "$home/suite"
    printf '{"private": true}\n' >"$home/suite/package.json"
    npm install --prefix "$home/suite" --no-package-lock --no-save --no-audit --no-fund --loglevel=error \
        "@modelcontextprotocol/conformance@$suite_version" "node@$node_major" >"$home/install.log" 2>&1 ||
        { cat "$home/install.log" >&2; fail "npm could not install the suite"; }
    installed || fail "npm installed something else than was asked for, see $home/install.log"
}

# run_suite URL RESULTS NAME ARGUMENT...: the suite's exit status; results in RESULTS/NAME, output in RESULTS/NAME.log.
run_suite() {
    local url=$1 results=$2 name=$3
    shift 3
    mkdir -p "$results"
    "$node" "$suite/dist/index.js" server --url "$url" --output-dir "$results/$name" "$@" \
        >"$results/$name.log" 2>&1 </dev/null
}
