# Runs in a distribution's base system, as an ordinary user: $1 is the program under test.
# Two programs exchange a file by a router; the last line is "done".
set -eu
nw=$1
cd /tmp
export HOME=/tmp NDN_CLIENT_TRANSPORT=unix:///tmp/nw.sock
"$nw" --version
cat >nw.toml <<'END'
[faces.unix]
path = "/tmp/nw.sock"
END
"$nw" run --config nw.toml >router.log 2>&1 &
router=$!
for _ in $(seq 100); do
    [ -S nw.sock ] && break
    kill -0 $router || { cat router.log; exit 1; }
    sleep 0.1
done
head -c 3000000 /dev/urandom >sent
"$nw" put --quiet /old/file sent >put.log 2>&1 &
producer=$!
"$nw" cat --quiet /old/file --output received
cmp sent received
echo "file: $(wc -c <received) bytes"
"$nw" status
"$nw" doctor --config nw.toml || echo "doctor: status $?"
kill $producer
kill $router
wait $router
echo done
