// The floor on PostgreSQL's own client library: what the errand of `pglock run` costs with libpq, which brings TLS and SCRAM.
//
//     libpq_floor CONNINFO KEY COMMAND [ARG...]
//
// It connects to where the connection string says, tries the advisory lock KEY, runs COMMAND, waits for it, unlocks and sees that
// confirmed, and leaves. No signal handlers, so no EINTR to expect. scripts/bench measures pglock against it; nobody should lock with it.
// Exit status: COMMAND's, 128+N for signal N, 75 lock is held, 123 lock was lost, 126/127 COMMAND not run, 125 anything else.

#include <errno.h>
#include <libpq-fe.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

enum { BUSY = 75, LOST = 123, FAILED = 125, NOT_EXECUTABLE = 126, NOT_FOUND = 127 };

__attribute__((noreturn)) static void fail(const char *what, const char *why) {
	fprintf(stderr, "libpq_floor: %s: %s\n", what, why);
	exit(FAILED);
}

// Runs `SELECT pg_catalog.FUNCTION('KEY')` and gives its one boolean.
static bool ask(PGconn *session, const char *function, long long key) {
	char sql[128];
	snprintf(sql, sizeof sql, "SELECT pg_catalog.%s('%lld')", function, key);
	PGresult *result = PQexec(session, sql);
	if (PQresultStatus(result) != PGRES_TUPLES_OK)
		fail(sql, PQerrorMessage(session));
	bool answer = PQgetvalue(result, 0, 0)[0] == 't';
	PQclear(result);
	return answer;
}

static int run(char **command) {
	pid_t child;
	int error = posix_spawnp(&child, command[0], NULL, NULL, command, environ);
	if (error) {
		fprintf(stderr, "libpq_floor: cannot run %s: %s\n", command[0], strerror(error));
		return error == ENOENT ? NOT_FOUND : NOT_EXECUTABLE;
	}
	int status;
	if (waitpid(child, &status, 0) < 0)
		fail("cannot wait for the command", strerror(errno));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv) {
	char *rest = NULL;
	long long key = argc > 3 ? strtoll(argv[2], &rest, 10) : 0;
	if (argc < 4 || rest == argv[2] || *rest)
		fail("usage", "libpq_floor CONNINFO KEY COMMAND [ARG...]");

	PGconn *session = PQconnectdb(argv[1]);
	if (PQstatus(session) != CONNECTION_OK)
		fail("cannot connect", PQerrorMessage(session));
	bool locked = ask(session, "pg_try_advisory_lock", key);
	int status = locked ? run(argv + 3) : BUSY;
	if (locked && !ask(session, "pg_advisory_unlock", key))
		status = LOST;
	PQfinish(session);
	return status;
}
