#!/bin/sh
# Runs the fuzz targets, one after the other, on stable Rust.
# Usage: fuzz/run.sh [seconds each, default 60] [target... | --part K/N]
# --part takes every Nth target, from the Kth on.
set -eu
cd "$(dirname "$0")"
seconds=${1:-60}
[ $# -gt 0 ] && shift
all=$(ls fuzz_targets | sed 's/\.rs$//')
if [ "${1:-}" = --part ]; then
    targets=$(echo "$all" | awk -v part="$2" 'BEGIN { split(part, n, "/") } (NR - n[1]) % n[2] == 0')
else
    targets=${*:-$all}
fi
programs=$(printf -- '--bin %s ' $targets)
passed=0

# libFuzzer's instrumentation, without cargo-fuzz and without a nightly compiler. --target keeps it
# off build scripts.
triple=$(rustc -vV | sed -n 's/^host: //p')
sancov="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
sancov="$sancov -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
sancov="$sancov -Cllvm-args=-sanitizer-coverage-trace-compares"
RUSTFLAGS="${RUSTFLAGS:-} $sancov --cfg fuzzing" cargo build --release --target "$triple" --quiet $programs

for target in $targets; do
    mkdir -p "found/$target" "artifacts/$target" "corpus/$target"
    echo "== $target, $seconds s"
    # New inputs go to found/, which is not committed; corpus/ has the seeds and inputs that once
    # failed.
    "target/$triple/release/$target" -max_total_time="$seconds" -max_len=9000 -timeout=5 -rss_limit_mb=1024 \
        -print_final_stats=1 -verbosity=0 -artifact_prefix="artifacts/$target/" "found/$target" "corpus/$target"
    passed=$((passed + 1))
done
echo "$passed passed, 0 failed, 0 skipped"
