# shellcheck shell=bash
# A private, throw-away PostgreSQL server below /tmp, for one script's time. To be sourced by bash with `set -euo pipefail`.
# It listens on a Unix socket in a folder that only its user may enter; no cluster of this machine is touched, no port taken.

# shellcheck source=scripts/lib/postgres-binaries.sh
. "$(dirname "${BASH_SOURCE[0]}")/postgres-binaries.sh"

# Makes sure that the caller's own servers are out of play: PGHOST and the like, PGLOCK_URL and the like, DATABASE_URL.
forget_other_servers() { unset "${!PG@}" DATABASE_URL; }

# Runs a command as the user that the server belongs to: initdb and postgres refuse to work as root, and want a working directory
# that they may enter.
as_server_user() {
	local user=postgres
	if [ "$(id -u)" -ne 0 ]; then
		"$@"
	else
		id -u "$user" >/dev/null 2>&1 || user=nobody
		(cd / && exec setpriv --reuid="$(id -u "$user")" --regid="$(id -g "$user")" --clear-groups "$@")
	fi
}

# Makes $private, a folder with `server` (socket, data, log) and whatever the caller adds. From here on there is something to
# remove, at the script's end or when it is told to stop.
make_private_server() {
	postgres_bin=$(postgres_bindir)
	private=$(mktemp -d /tmp/pglock.XXXXXX) # not $TMPDIR: a socket's path has 107 bytes, and the server's user must get there
	trap remove_private_server EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	chmod 711 "$private"
	mkdir -m 700 "$private/server"
	[ "$(id -u)" -ne 0 ] || chown "$(as_server_user id -u):$(as_server_user id -g)" "$private/server"
	as_server_user "$postgres_bin/initdb" --pgdata="$private/server/data" --username=postgres --auth=trust --no-sync \
		--locale=C --encoding=UTF8 >"$private/initdb.log" 2>&1 </dev/null || { cat "$private/initdb.log" >&2 && return 1; }
	cat >>"$private/server/data/postgresql.conf" <<-END
		unix_socket_directories = '$private/server'
		fsync = off
	END
}

# Starts the server; fails quietly, see private_server_log. ADDRESS '' is for the Unix socket alone, which has PORT in its name.
start_private_server() { # ADDRESS PORT
	as_server_user "$postgres_bin/pg_ctl" --pgdata="$private/server/data" --log="$private/server/log" \
		--options="-c listen_addresses='$1' -p $2" --silent --wait start >/dev/null 2>&1 </dev/null
}

private_server_log() { tail -n 20 "$private/server/log" >&2; }

remove_private_server() {
	trap '' INT TERM HUP
	[ ! -e "$private/server/data/postmaster.pid" ] ||
		as_server_user "$postgres_bin/pg_ctl" --pgdata="$private/server/data" --mode=immediate --silent stop >/dev/null 2>&1 || true
	rm -rf "$private"
}
