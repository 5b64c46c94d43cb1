#!/bin/sh
# Applies what of migrations/*.sql, beside this file, the database has not had yet, in the order of their names, each with the note that
# it was applied in one transaction. Run it under the lock, as entrypoint.sh does: it looks only then, so that whoever has waited sees
# what was done meanwhile. Ends with 3, psql's status, at the first one that fails (1 where the role may not create the table); those before it stay applied.
#
# What cannot be in a transaction (CREATE INDEX CONCURRENTLY) needs a way of its own, and has to bear being begun twice.
set -eu

run_sql() { psql --no-psqlrc --quiet --no-align --tuples-only --set ON_ERROR_STOP=1 "$@"; }

run_sql --command 'SET client_min_messages = warning' \
	--command 'CREATE TABLE IF NOT EXISTS schema_migrations (name text PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now())'
for file in "$(dirname "$0")"/migrations/*.sql; do
	name=$(basename "$file" .sql)
	applied=$(echo "SELECT count(*) FROM schema_migrations WHERE name = :'name'" | run_sql --set name="$name")
	[ "$applied" -eq 0 ] || continue
	echo "migrating: $name"
	# psql's variables are not for --command, so the note comes by standard input.
	echo "INSERT INTO schema_migrations (name) VALUES (:'name')" |
		run_sql --single-transaction --set name="$name" --file "$file" --file -
done
