# shellcheck shell=sh
# Boots another machine: a copy of this one with a host name, processes, mounts and devices of its own, of which nothing is left when it
# is switched off, whether the test process let go or died. For root.
#
#   arguments       `watch`, the host name, pglock's program
#   standard input  its end switches the machine off
#   standard output `machine PID`, the first process as this machine numbers it, once the copy is there; then what that process says;
#                   and `off STATUS` when it has ended
#
# The first process waits at the pipe /run/start for a line of a shell, and does what it says.
set -eu

# The copy is made of what the root file system has, so what is mounted elsewhere is not in it.
copy() {
    mkdir /mnt/upper /mnt/work /mnt/root
    mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
    cd /mnt/root
    mount -t proc proc proc
    mount --bind /sys sys
    mount -t tmpfs none sys/fs/cgroup
    mount -t cgroup2 none sys/fs/cgroup
    mount -t tmpfs -o mode=755 none run
    mount -t tmpfs -o mode=1777 none tmp
    mount -t tmpfs -o mode=755 none dev
    mkdir dev/pts dev/shm
    mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
    mount -t tmpfs -o mode=1777 none dev/shm
    for device in null zero full random urandom tty; do
        : >"dev/$device"
        mount --bind "/dev/$device" "dev/$device"
    done
    ln -s pts/ptmx dev/ptmx
    ln -s /proc/self/fd dev/fd
    # As a system of its own has it, where credentials of a service are mounted by one process for another.
    mount --make-rshared .
}

case $1 in
watch)
    shift
    mount -t tmpfs none /mnt
    mkdir /mnt/cgroup
    mount -t cgroup2 none /mnt/cgroup
    group=/mnt/cgroup/pglock-test-$$
    mkdir "$group"
    {
        status=0
        unshare --mount --pid --fork --uts --ipc --kill-child sh "$0" enter "$group" "$@" </dev/null || status=$?
        echo "off $status"
    } &
    while read -r _; do :; done
    # The end of the first process is that of all others.
    tries=500
    until find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || [ "$tries" -eq 0 ]; do
        # shellcheck disable=SC2046 # as many words as there are processes
        kill -s KILL $(find "$group" -name cgroup.procs -exec cat {} + | grep -v '^0$') 2>/dev/null || true
        sleep 0.01
        tries=$((tries - 1))
    done
    wait
    ;;
enter)
    echo 0 >"$2/cgroup.procs"
    shift 2
    exec unshare --cgroup sh "$0" boot "$@"
    ;;
boot)
    # This shell's number where /proc is mounted still.
    read -r pid _ </proc/self/stat
    hostname "$2"
    copy
    echo "$2" >etc/hostname
    : >usr/local/bin/pglock
    chmod 755 usr/local/bin/pglock
    mount --bind "$3" usr/local/bin/pglock
    mkfifo run/start
    # shellcheck disable=SC2016 # the variables of the shell in there
    exec chroot . sh -c 'echo "machine $0"; read -r start </run/start; rm /run/start; eval "$start"' "$pid"
    ;;
esac
