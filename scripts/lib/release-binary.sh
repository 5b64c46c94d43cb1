# shellcheck shell=sh
# Builds pglock the way users get it. To be sourced.

# Builds in the repository $1 and prints the program's path, wherever cargo's configuration puts it.
build_release_binary() {
	build_messages=$(cd "$1" && cargo build --release --locked --bin pglock \
		--message-format=json-render-diagnostics </dev/null) || return
	printf '%s\n' "$build_messages" | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p'
}
