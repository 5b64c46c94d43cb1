#!/bin/sh
# Migrates the database and becomes the application: the entry point of a container of which many start at once.
#
#     ENTRYPOINT ["/app/entrypoint.sh"]
#     CMD ["/app/server"]
#
# Whoever gets the lock first migrates, the others wait, at most MIGRATION_TIMEOUT, each find nothing to do, and go on. To change: the name
# of the lock (`migrations`), and the two limits. The connection is psql's: PGHOST, PGDATABASE, PGUSER, PGPASSWORD, PGSSLMODE.
#
# The start fails with what a failed migration ends with (psql: 3; 1 where the role may not create the table that notes what was applied),
# with 75 if the lock was not free in time (the message says who has it), 121 (no connection), 122 (a pooler or standby that cannot hold
# the lock), 123 (the lock was lost), 124 (the migrations overran MIGRATION_MAX_RUNTIME), and 143 if it was told to stop meanwhile. The
# application is not started then.
#
# Migrations want the server itself, not a transaction pooler: pglock refuses one with 122. Where there is no other way, add
# `--scope transaction`, and have two backends of the pool free, one for the lock and one for psql.
set -eu

# A shell that is process 1 would not heed TERM while it waits. pglock is told, and ends when psql has.
told='' pglock=''
stop() {
	told=1
	[ -z "$pglock" ] || kill -s TERM "$pglock" 2>/dev/null || true
}
trap stop TERM INT

migrate="$(dirname "$0")/migrate.sh"
pglock run --timeout "${MIGRATION_TIMEOUT:-5m}" --max-runtime "${MIGRATION_MAX_RUNTIME:-30m}" migrations -- "$migrate" &
pglock=$!
# By a signal that came before there was anybody to tell.
[ -z "$told" ] || stop

status=0
wait "$pglock" || status=$?
# A signal ends the shell's waiting, and not what it waits for.
while kill -0 "$pglock" 2>/dev/null; do
	status=0
	wait "$pglock" || status=$?
done
trap - TERM INT
[ -z "$told" ] || exit "$((status == 0 ? 143 : status))"
[ "$status" -eq 0 ] || exit "$status"

exec "$@"
