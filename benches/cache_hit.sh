#!/bin/sh
# Instructions and allocations of one request, per scenario of benches/cache_hit.rs. Needs valgrind.
set -eu
cd "$(dirname "$0")/.."
bench=$(cargo bench --no-default-features --features cache --bench cache_hit --no-run --message-format=json 2>/dev/null |
    sed -n 's/.*"executable":"\([^"]*cache_hit[^"]*\)".*/\1/p')
few=500 many=1500

instructions() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$bench" "$@" 2>&1 |
        sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}

allocations() {
    valgrind --tool=memcheck --leak-check=no "$bench" "$@" 2>&1 |
        sed -n 's/.*total heap usage: \([0-9,]*\) allocs.*/\1/p' | tr -d ,
}

printf '%-10s %10s %8s %14s %12s\n' scenario bytes others instructions allocations
while read -r scenario bytes others; do
    i=$(($(instructions "$scenario" $many "$bytes" "$others") - $(instructions "$scenario" $few "$bytes" "$others")))
    a=$(($(allocations "$scenario" $many "$bytes" "$others") - $(allocations "$scenario" $few "$bytes" "$others")))
    printf '%-10s %10s %8s %14s %12s\n' "$scenario" "$bytes" "$others" $((i / (many - few))) \
        "$(echo "scale=2; $a / ($many - $few)" | bc)"
done <<SCENARIOS
hyper 6000 0
endpoint 6000 0
cache 6000 0
cache 600000 0
cache 6000 10000
layer 6000 0
layer 600000 0
layer 6000 10000
SCENARIOS
