// The bare floor under `pglock run`: what the same errand costs with nothing but libc.
//
//     floor [-h HOST-OR-SOCKET-DIR] -p PORT -U USER -d DB KEY COMMAND [ARG...]
//
// It speaks PostgreSQL's wire protocol itself (version 3.0, "Frontend/Backend Protocol" in the manual): connect, log in by trust, try
// the advisory lock KEY, run COMMAND, wait for it, unlock, say goodbye. No TLS, no passwords, and no signal handlers, so no EINTR to
// expect. scripts/bench measures pglock against it; nobody should lock with it.
// Exit status: COMMAND's, 128+N for signal N, 75 lock is held, 123 lock was lost, 126/127 COMMAND not run, 125 anything else.

#define _GNU_SOURCE // SOCK_CLOEXEC before POSIX 2024
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { BUSY = 75, LOST = 123, FAILED = 125, NOT_EXECUTABLE = 126, NOT_FOUND = 127 };

// One server connection with what was received and not yet looked at.
struct session {
	int fd;
	size_t start, end;
	char received[16384];
};

// One message of the server; `body` is valid until the next one is read.
struct message {
	char type;
	size_t length;
	const char *body;
};

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...) {
	va_list arguments;
	va_start(arguments, format);
	fputs("floor: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	exit(FAILED);
}

static int connect_unix(const char *directory, const char *port) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int length = snprintf(address.sun_path, sizeof address.sun_path, "%s/.s.PGSQL.%s", directory, port);
	if ((size_t)length >= sizeof address.sun_path)
		fail("socket path is too long: %s", directory);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
		fail("cannot connect to %s: %s", address.sun_path, strerror(errno));
	return fd;
}

// Takes the first address of a name, unlike pglock.
static int connect_tcp(const char *host, const char *port) {
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *address;
	int error = getaddrinfo(host, port, &hints, &address);
	if (error)
		fail("cannot look up %s: %s", host, gai_strerror(error));
	int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int on = 1;
	if (fd < 0 || connect(fd, address->ai_addr, address->ai_addrlen) < 0)
		fail("cannot connect to %s port %s: %s", host, port, strerror(errno));
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0)
		fail("cannot set TCP_NODELAY: %s", strerror(errno));
	freeaddrinfo(address);
	return fd;
}

// Sends `length` bytes of `message`, after its type (none when 0) and its length word, in one write.
static void send_message(struct session *session, char type, const char *message, size_t length) {
	char packet[1024];
	size_t head = type ? 1 : 0;
	uint32_t word = htonl((uint32_t)length + 4);
	if (head + 4 + length > sizeof packet)
		fail("names are too long");
	packet[0] = type;
	memcpy(packet + head, &word, 4);
	memcpy(packet + head + 4, message, length);
	if (send(session->fd, packet, head + 4 + length, MSG_NOSIGNAL) != (ssize_t)(head + 4 + length))
		fail("cannot send: %s", strerror(errno));
}

// Receives until `wanted` bytes are there.
static const char *receive(struct session *session, size_t wanted) {
	if (session->start == session->end)
		session->start = session->end = 0;
	if (session->start + wanted > sizeof session->received)
		fail("the server's answer is too long");
	while (session->end - session->start < wanted) {
		ssize_t n = recv(session->fd, session->received + session->end, sizeof session->received - session->end, 0);
		if (n <= 0)
			fail("cannot receive: %s", n < 0 ? strerror(errno) : "the server closed the connection");
		session->end += (size_t)n;
	}
	return session->received + session->start;
}

static struct message next_message(struct session *session) {
	uint32_t word;
	memcpy(&word, receive(session, 5) + 1, 4);
	size_t length = ntohl(word);
	if (length < 4)
		fail("not a PostgreSQL server");
	const char *packet = receive(session, 1 + length);
	session->start += 1 + length;
	return (struct message){.type = packet[0], .length = length - 4, .body = packet + 5};
}

// An error or notice is a list of fields, each a letter and a string; 'M' is the text for people.
__attribute__((noreturn)) static void fail_with_server_error(struct message error) {
	for (const char *field = error.body; field < error.body + error.length && *field; field += strlen(field) + 1)
		if (*field == 'M')
			fail("server: %s", field + 1);
	fail("the server reports an error without a text");
}

static void log_in(struct session *session, const char *user, const char *database) {
	char startup[512];
	uint32_t version = htonl(3 << 16);
	memcpy(startup, &version, 4);
	int n = snprintf(startup + 4, sizeof startup - 4, "user%c%s%cdatabase%c%s%c", 0, user, 0, 0, database, 0);
	if (4 + (size_t)n + 1 > sizeof startup)
		fail("names are too long");
	send_message(session, 0, startup, 4 + (size_t)n + 1); // with snprintf's own zero, which ends the list
	for (struct message message = next_message(session); message.type != 'Z'; message = next_message(session)) {
		if (message.type == 'E')
			fail_with_server_error(message);
		// AuthenticationOk is an int32 0, every other kind wants something.
		if (message.type == 'R' && (message.length < 4 || memcmp(message.body, "\0\0\0", 4) != 0))
			fail("the server wants a password, and this program knows trust only");
	}
}

// Runs `SELECT pg_catalog.FUNCTION('KEY')` and gives its one boolean.
static bool ask(struct session *session, const char *function, long long key) {
	char sql[128];
	int length = snprintf(sql, sizeof sql, "SELECT pg_catalog.%s('%lld')", function, key);
	send_message(session, 'Q', sql, (size_t)length + 1);
	bool answer = false;
	for (struct message message = next_message(session); message.type != 'Z'; message = next_message(session)) {
		if (message.type == 'E')
			fail_with_server_error(message);
		if (message.type == 'D') // int16 columns, int32 length, 't' or 'f'
			answer = message.length >= 7 && message.body[6] == 't';
	}
	return answer;
}

static int run(char **command) {
	pid_t child;
	int error = posix_spawnp(&child, command[0], NULL, NULL, command, environ);
	if (error) {
		fprintf(stderr, "floor: cannot run %s: %s\n", command[0], strerror(error));
		return error == ENOENT ? NOT_FOUND : NOT_EXECUTABLE;
	}
	int status;
	if (waitpid(child, &status, 0) < 0)
		fail("cannot wait for %s: %s", command[0], strerror(errno));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv) {
	const char *host = "/var/run/postgresql", *port = NULL, *user = NULL, *database = NULL;
	for (int option; (option = getopt(argc, argv, "+h:p:U:d:")) != -1;) {
		switch (option) {
		case 'h': host = optarg; break;
		case 'p': port = optarg; break;
		case 'U': user = optarg; break;
		case 'd': database = optarg; break;
		default: return FAILED;
		}
	}
	char *rest = NULL;
	long long key = optind < argc ? strtoll(argv[optind], &rest, 10) : 0;
	if (!port || !user || !database || argc - optind < 2 || rest == argv[optind] || *rest)
		fail("usage: floor [-h HOST-OR-SOCKET-DIR] -p PORT -U USER -d DB KEY COMMAND [ARG...]");

	struct session session = {.fd = host[0] == '/' ? connect_unix(host, port) : connect_tcp(host, port)};
	log_in(&session, user, database);
	bool locked = ask(&session, "pg_try_advisory_lock", key);
	int status = locked ? run(argv + optind + 1) : BUSY;
	if (locked && !ask(&session, "pg_advisory_unlock", key))
		status = LOST;
	send_message(&session, 'X', "", 0);
	close(session.fd);
	return status;
}
