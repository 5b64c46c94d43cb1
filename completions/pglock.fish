# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_pglock_global_optspecs
    string join \n d/dbname= h/host= p/port= U/username= W/password no-password ?/help V/version
end

function __fish_pglock_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_pglock_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_pglock_using_subcommand
    set -l cmd (__fish_pglock_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c pglock -n "__fish_pglock_needs_command" -s d -l dbname -d 'Database name, or a connection URI or keyword=value string' -r
complete -c pglock -n "__fish_pglock_needs_command" -s h -l host -d 'Server host name, or the directory of its Unix socket' -r
complete -c pglock -n "__fish_pglock_needs_command" -s p -l port -d 'Server port' -r
complete -c pglock -n "__fish_pglock_needs_command" -s U -l username -d 'Role to connect as' -r
complete -c pglock -n "__fish_pglock_needs_command" -s W -l password -d 'Ask for the password before connecting, even if one is known'
complete -c pglock -n "__fish_pglock_needs_command" -l no-password -d 'Never ask for a password'
complete -c pglock -n "__fish_pglock_needs_command" -s ? -l help -d 'Print help (-? is brief, --help is complete)'
complete -c pglock -n "__fish_pglock_needs_command" -s V -l version -d 'Print version'
complete -c pglock -n "__fish_pglock_needs_command" -f -a "run" -d 'Wait for the lock, then run COMMAND while holding it'
complete -c pglock -n "__fish_pglock_needs_command" -f -a "try" -d 'Run COMMAND if the lock is free now, and never wait'
complete -c pglock -n "__fish_pglock_needs_command" -f -a "list" -d 'Show who holds and who waits for advisory locks'
complete -c pglock -n "__fish_pglock_needs_command" -f -a "release" -d 'Free a lock that somebody else holds'
complete -c pglock -n "__fish_pglock_needs_command" -f -a "key" -d 'Print the key of each NAME, one a line; needs no server'
complete -c pglock -n "__fish_pglock_needs_command" -f -a "check" -d 'Say whether this connection is fit to hold locks'
complete -c pglock -n "__fish_pglock_using_subcommand run" -s w -l timeout -d 'Wait at most this long for connection and lock together; 0 is like `try`' -r
complete -c pglock -n "__fish_pglock_using_subcommand run" -l max-waiters -d 'Do not join the queue if N others already wait; exit with 75' -r
complete -c pglock -n "__fish_pglock_using_subcommand run" -s N -l namespace -d 'Put NAME into this namespace: the two-integer form of the key' -r
complete -c pglock -n "__fish_pglock_using_subcommand run" -s E -l conflict-exit-code -d 'Exit with N (0-255) instead of 75 when the lock was not obtained' -r
complete -c pglock -n "__fish_pglock_using_subcommand run" -s c -l command -d 'Run STRING with /bin/sh -c' -r
complete -c pglock -n "__fish_pglock_using_subcommand run" -l scope -d 'What of the server\'s holds the lock: the session, or one open transaction' -r -f -a "session\t'The session, across all its transactions'
transaction\t'One transaction, for poolers that share out sessions'"
complete -c pglock -n "__fish_pglock_using_subcommand run" -l lease -d 'How long the server may go without hearing of this host before it frees the lock [default: 30s]' -r
complete -c pglock -n "__fish_pglock_using_subcommand run" -l grace -d 'Time between TERM and KILL when pglock itself stops the command [default: 10s]' -r
complete -c pglock -n "__fish_pglock_using_subcommand run" -l also -d 'Hold this lock, too; may be given several times' -r
complete -c pglock -n "__fish_pglock_using_subcommand run" -l slots -d 'Let at most N hold the lock at once, each in a slot of its own' -r
complete -c pglock -n "__fish_pglock_using_subcommand run" -l hold-at-least -d 'Keep the lock this long after it was taken, even if COMMAND ended sooner' -r
complete -c pglock -n "__fish_pglock_using_subcommand run" -l max-runtime -d 'Stop COMMAND when it has run this long: TERM, and KILL after the grace; exit with 124' -r
complete -c pglock -n "__fish_pglock_using_subcommand run" -l jitter -d 'Wait a random time up to this before connecting' -r
complete -c pglock -n "__fish_pglock_using_subcommand run" -l on-lost -d 'What to do with COMMAND when the lock is lost while it runs' -r -f -a "stop\t'TERM to everything of it, KILL after the grace'
warn\t'Say so, and let it finish'"
complete -c pglock -n "__fish_pglock_using_subcommand run" -s d -l dbname -d 'Database name, or a connection URI or keyword=value string' -r
complete -c pglock -n "__fish_pglock_using_subcommand run" -s h -l host -d 'Server host name, or the directory of its Unix socket' -r
complete -c pglock -n "__fish_pglock_using_subcommand run" -s p -l port -d 'Server port' -r
complete -c pglock -n "__fish_pglock_using_subcommand run" -s U -l username -d 'Role to connect as' -r
complete -c pglock -n "__fish_pglock_using_subcommand run" -s n -l nonblock -d 'Do not wait: like `try`'
complete -c pglock -n "__fish_pglock_using_subcommand run" -l raw -d 'NAME is the key itself: a 64-bit integer, or A,B with two 32-bit integers'
complete -c pglock -n "__fish_pglock_using_subcommand run" -s s -l shared -d 'Take a shared lock: many shared holders at once, or one exclusive'
complete -c pglock -n "__fish_pglock_using_subcommand run" -l token -d 'Give COMMAND a fencing token in PGLOCK_TOKEN'
complete -c pglock -n "__fish_pglock_using_subcommand run" -s o -l close -d 'No guardian: if pglock is killed with -9 the lock goes at once'
complete -c pglock -n "__fish_pglock_using_subcommand run" -s q -l quiet -d 'No message when the lock was not obtained'
complete -c pglock -n "__fish_pglock_using_subcommand run" -s v -l verbose -d 'Say on standard error what is done, with times'
complete -c pglock -n "__fish_pglock_using_subcommand run" -s W -l password -d 'Ask for the password before connecting, even if one is known'
complete -c pglock -n "__fish_pglock_using_subcommand run" -l no-password -d 'Never ask for a password'
complete -c pglock -n "__fish_pglock_using_subcommand run" -s ? -l help -d 'Print help (-? is brief, --help is complete)'
complete -c pglock -n "__fish_pglock_using_subcommand try" -s N -l namespace -d 'Put NAME into this namespace: the two-integer form of the key' -r
complete -c pglock -n "__fish_pglock_using_subcommand try" -s E -l conflict-exit-code -d 'Exit with N (0-255) instead of 75 when the lock was not obtained' -r
complete -c pglock -n "__fish_pglock_using_subcommand try" -s c -l command -d 'Run STRING with /bin/sh -c' -r
complete -c pglock -n "__fish_pglock_using_subcommand try" -l scope -d 'What of the server\'s holds the lock: the session, or one open transaction' -r -f -a "session\t'The session, across all its transactions'
transaction\t'One transaction, for poolers that share out sessions'"
complete -c pglock -n "__fish_pglock_using_subcommand try" -l lease -d 'How long the server may go without hearing of this host before it frees the lock [default: 30s]' -r
complete -c pglock -n "__fish_pglock_using_subcommand try" -l grace -d 'Time between TERM and KILL when pglock itself stops the command [default: 10s]' -r
complete -c pglock -n "__fish_pglock_using_subcommand try" -l also -d 'Hold this lock, too; may be given several times' -r
complete -c pglock -n "__fish_pglock_using_subcommand try" -l slots -d 'Let at most N hold the lock at once, each in a slot of its own' -r
complete -c pglock -n "__fish_pglock_using_subcommand try" -l hold-at-least -d 'Keep the lock this long after it was taken, even if COMMAND ended sooner' -r
complete -c pglock -n "__fish_pglock_using_subcommand try" -l max-runtime -d 'Stop COMMAND when it has run this long: TERM, and KILL after the grace; exit with 124' -r
complete -c pglock -n "__fish_pglock_using_subcommand try" -l jitter -d 'Wait a random time up to this before connecting' -r
complete -c pglock -n "__fish_pglock_using_subcommand try" -l on-lost -d 'What to do with COMMAND when the lock is lost while it runs' -r -f -a "stop\t'TERM to everything of it, KILL after the grace'
warn\t'Say so, and let it finish'"
complete -c pglock -n "__fish_pglock_using_subcommand try" -s d -l dbname -d 'Database name, or a connection URI or keyword=value string' -r
complete -c pglock -n "__fish_pglock_using_subcommand try" -s h -l host -d 'Server host name, or the directory of its Unix socket' -r
complete -c pglock -n "__fish_pglock_using_subcommand try" -s p -l port -d 'Server port' -r
complete -c pglock -n "__fish_pglock_using_subcommand try" -s U -l username -d 'Role to connect as' -r
complete -c pglock -n "__fish_pglock_using_subcommand try" -l raw -d 'NAME is the key itself: a 64-bit integer, or A,B with two 32-bit integers'
complete -c pglock -n "__fish_pglock_using_subcommand try" -s s -l shared -d 'Take a shared lock: many shared holders at once, or one exclusive'
complete -c pglock -n "__fish_pglock_using_subcommand try" -l token -d 'Give COMMAND a fencing token in PGLOCK_TOKEN'
complete -c pglock -n "__fish_pglock_using_subcommand try" -s o -l close -d 'No guardian: if pglock is killed with -9 the lock goes at once'
complete -c pglock -n "__fish_pglock_using_subcommand try" -s q -l quiet -d 'No message when the lock was not obtained'
complete -c pglock -n "__fish_pglock_using_subcommand try" -s v -l verbose -d 'Say on standard error what is done, with times'
complete -c pglock -n "__fish_pglock_using_subcommand try" -s W -l password -d 'Ask for the password before connecting, even if one is known'
complete -c pglock -n "__fish_pglock_using_subcommand try" -l no-password -d 'Never ask for a password'
complete -c pglock -n "__fish_pglock_using_subcommand try" -s ? -l help -d 'Print help (-? is brief, --help is complete)'
complete -c pglock -n "__fish_pglock_using_subcommand list" -s N -l namespace -d 'Put NAME into this namespace: the two-integer form of the key' -r
complete -c pglock -n "__fish_pglock_using_subcommand list" -l format -d 'Format of the output' -r -f -a "table\t'For people'
json\t'One array; the keys are stable'
csv\t'RFC 4180, with a header line'"
complete -c pglock -n "__fish_pglock_using_subcommand list" -s d -l dbname -d 'Database name, or a connection URI or keyword=value string' -r
complete -c pglock -n "__fish_pglock_using_subcommand list" -s h -l host -d 'Server host name, or the directory of its Unix socket' -r
complete -c pglock -n "__fish_pglock_using_subcommand list" -s p -l port -d 'Server port' -r
complete -c pglock -n "__fish_pglock_using_subcommand list" -s U -l username -d 'Role to connect as' -r
complete -c pglock -n "__fish_pglock_using_subcommand list" -l raw -d 'NAME is the key itself: a 64-bit integer, or A,B with two 32-bit integers'
complete -c pglock -n "__fish_pglock_using_subcommand list" -l json -d 'The same as --format json'
complete -c pglock -n "__fish_pglock_using_subcommand list" -l wide -d 'More columns: application, client, database, blocked by'
complete -c pglock -n "__fish_pglock_using_subcommand list" -s a -l all-databases -d 'Locks of all databases of the server, not only of the current one'
complete -c pglock -n "__fish_pglock_using_subcommand list" -s q -l quiet -d 'No output: exit 0 when a lock is held, 1 when none is'
complete -c pglock -n "__fish_pglock_using_subcommand list" -s W -l password -d 'Ask for the password before connecting, even if one is known'
complete -c pglock -n "__fish_pglock_using_subcommand list" -l no-password -d 'Never ask for a password'
complete -c pglock -n "__fish_pglock_using_subcommand list" -s ? -l help -d 'Print help (-? is brief, --help is complete)'
complete -c pglock -n "__fish_pglock_using_subcommand release" -s N -l namespace -d 'Put NAME into this namespace: the two-integer form of the key' -r
complete -c pglock -n "__fish_pglock_using_subcommand release" -l pid -d 'Only the holder with this backend process ID' -r
complete -c pglock -n "__fish_pglock_using_subcommand release" -l timeout -d 'Wait at most this long until the lock is really gone [default: 30s]' -r
complete -c pglock -n "__fish_pglock_using_subcommand release" -s d -l dbname -d 'Database name, or a connection URI or keyword=value string' -r
complete -c pglock -n "__fish_pglock_using_subcommand release" -s h -l host -d 'Server host name, or the directory of its Unix socket' -r
complete -c pglock -n "__fish_pglock_using_subcommand release" -s p -l port -d 'Server port' -r
complete -c pglock -n "__fish_pglock_using_subcommand release" -s U -l username -d 'Role to connect as' -r
complete -c pglock -n "__fish_pglock_using_subcommand release" -l raw -d 'NAME is the key itself: a 64-bit integer, or A,B with two 32-bit integers'
complete -c pglock -n "__fish_pglock_using_subcommand release" -s f -l force -d 'Terminate the holders\' sessions at once, those of pglock too'
complete -c pglock -n "__fish_pglock_using_subcommand release" -s y -l yes -d 'End sessions of other programs without a question; a pglock is still asked to stop'
complete -c pglock -n "__fish_pglock_using_subcommand release" -l dry-run -d 'Show what it would do with whom, and do nothing'
complete -c pglock -n "__fish_pglock_using_subcommand release" -s W -l password -d 'Ask for the password before connecting, even if one is known'
complete -c pglock -n "__fish_pglock_using_subcommand release" -l no-password -d 'Never ask for a password'
complete -c pglock -n "__fish_pglock_using_subcommand release" -s ? -l help -d 'Print help (-? is brief, --help is complete)'
complete -c pglock -n "__fish_pglock_using_subcommand key" -s N -l namespace -d 'Put NAME into this namespace: the two-integer form of the key' -r
complete -c pglock -n "__fish_pglock_using_subcommand key" -s d -l dbname -d 'Database name, or a connection URI or keyword=value string' -r
complete -c pglock -n "__fish_pglock_using_subcommand key" -s h -l host -d 'Server host name, or the directory of its Unix socket' -r
complete -c pglock -n "__fish_pglock_using_subcommand key" -s p -l port -d 'Server port' -r
complete -c pglock -n "__fish_pglock_using_subcommand key" -s U -l username -d 'Role to connect as' -r
complete -c pglock -n "__fish_pglock_using_subcommand key" -l raw -d 'NAME is the key itself: a 64-bit integer, or A,B with two 32-bit integers'
complete -c pglock -n "__fish_pglock_using_subcommand key" -s W -l password -d 'Ask for the password before connecting, even if one is known'
complete -c pglock -n "__fish_pglock_using_subcommand key" -l no-password -d 'Never ask for a password'
complete -c pglock -n "__fish_pglock_using_subcommand key" -s ? -l help -d 'Print help (-? is brief, --help is complete)'
complete -c pglock -n "__fish_pglock_using_subcommand check" -s N -l namespace -d 'Check where the locks of this namespace live; PGLOCK_NAMESPACE in the environment does the same' -r
complete -c pglock -n "__fish_pglock_using_subcommand check" -l scope -d 'Try a lock that is held by the session, or by one open transaction' -r -f -a "session\t'The session, across all its transactions'
transaction\t'One transaction, for poolers that share out sessions'"
complete -c pglock -n "__fish_pglock_using_subcommand check" -l lease -d 'As in `run`: how long the server may go without hearing of this host [default: 30s]' -r
complete -c pglock -n "__fish_pglock_using_subcommand check" -s d -l dbname -d 'Database name, or a connection URI or keyword=value string' -r
complete -c pglock -n "__fish_pglock_using_subcommand check" -s h -l host -d 'Server host name, or the directory of its Unix socket' -r
complete -c pglock -n "__fish_pglock_using_subcommand check" -s p -l port -d 'Server port' -r
complete -c pglock -n "__fish_pglock_using_subcommand check" -s U -l username -d 'Role to connect as' -r
complete -c pglock -n "__fish_pglock_using_subcommand check" -l json -d 'One JSON object; the keys are stable'
complete -c pglock -n "__fish_pglock_using_subcommand check" -s W -l password -d 'Ask for the password before connecting, even if one is known'
complete -c pglock -n "__fish_pglock_using_subcommand check" -l no-password -d 'Never ask for a password'
complete -c pglock -n "__fish_pglock_using_subcommand check" -s ? -l help -d 'Print help (-? is brief, --help is complete)'
