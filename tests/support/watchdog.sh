# Owns the directory and the processes of one test server, and outlives the test process only to clear both away:
# when standard input ends, whether the test process let go or died, it stops the server and removes the directory.
#
#   argument        the directory to make its own directory in
#   standard input  `run PROGRAM ARG...` and `start PROGRAM ARG...`, one a line, quoted for the shell
#   standard output `directory PATH`, `done STATUS` after run, `started PID` and in the end `ended STATUS` after start

# A test process that died must not end the watchdog with a broken pipe. Handled, not ignored: children inherit the latter.
trap : PIPE

directory=$(mktemp -d "$1/pglock.XXXXXX") || exit
chmod 755 "$directory"
echo "directory $directory"

run() {
    "$@" </dev/null >>"$directory/log" 2>&1
    echo "done $?"
}

# The file `running` stands for a server which is still on its way into the data directory.
start() {
    : >"$directory/running"
    (
        sh -c 'echo "started $$"; log=$1; shift; exec "$@" </dev/null >>"$log" 2>&1' sh "$directory/log" "$@"
        status=$?
        rm -f "$directory/running"
        echo "ended $status"
    ) &
}

# Every process of a server works in its data directory; no process group holds them all, for each is a session leader.
remaining() {
    find /proc/[0-9]*/cwd -maxdepth 0 -lname "$directory/data" 2>/dev/null | cut -d/ -f3
}

while read -r command; do
    eval "$command"
done

# QUIT is PostgreSQL's immediate shutdown. CONT, for a stopped process heeds nothing but KILL.
for signal in QUIT KILL; do
    tries=150
    while pids=$(remaining) && [ "$tries" -gt 0 ]; do
        [ -n "$pids" ] || [ -e "$directory/running" ] || break
        # shellcheck disable=SC2086 # as many words as there are processes
        [ -z "$pids" ] || kill -s "$signal" $pids
        # shellcheck disable=SC2086
        [ -z "$pids" ] || kill -s CONT $pids
        sleep 0.02
        tries=$((tries - 1))
    done
done

# A server that was killed leaves its System V segment, whose number ends line 7 of its lock file.
if [ -e "$directory/data/postmaster.pid" ]; then
    ipcrm -m "$(sed -n '7s/.* //p' "$directory/data/postmaster.pid")"
fi
rm -rf "$directory"
