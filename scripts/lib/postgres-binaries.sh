# shellcheck shell=sh
# Finds PostgreSQL's server programs. To be sourced.

# Prints the directory that holds initdb, pg_ctl and postgres of the newest installed version, 13 or later; fails if there is none.
postgres_bindir() {
	for bindir in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/local/pgsql/bin \
		"$(pg_config --bindir 2>/dev/null || true)" "$(dirname "$(command -v initdb || echo /nowhere/initdb)")"; do
		if ! [ -x "$bindir/initdb" ] || ! [ -x "$bindir/pg_ctl" ] || ! [ -x "$bindir/postgres" ]; then continue; fi
		# "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", or "17beta1" for the number
		echo "$("$bindir/postgres" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/') $bindir"
	done | sort -srn -k 1,1 | awk '$1 >= 13 { sub(/^[0-9]+ /, ""); print; found = 1; exit } END { exit !found }'
}
