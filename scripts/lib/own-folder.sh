# shellcheck shell=sh
# Folders below /tmp for what is installed or built beside the system and may be kept: remove them as you like. To be sourced.

# Makes a folder that everybody may look into and this user alone may change, and waits until no other script works in it; fails if
# somebody else has it.
own_folder() { # PATH
	mkdir -p "$1"
	if [ "$(stat -c %u "$1")" -ne "$(id -u)" ]; then
		echo "${0##*/}: $1 belongs to somebody else" >&2
		return 1
	fi
	chmod 755 "$1"
	exec 9>"$1/lock"
	flock -n 9 || { echo "${0##*/}: waiting for who else works in $1" >&2 && flock 9; }
}
