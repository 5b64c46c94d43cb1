
# Within COMMAND of run and try whatever completes COMMAND itself, elsewhere the above.
_pglock_or_command() {
    local at=1 word seen=0 options=1
    for ((; at < COMP_CWORD; at++)); do
        word=${COMP_WORDS[at]}
        case "$options,$word" in
            1,--) options=0 ;;
            1,-c | 1,--command) break ;;
            1,OPTIONS_WITH_A_VALUE)
                [[ ${COMP_WORDS[at + 1]} == '=' ]] && ((at++))
                ((at++))
                ;;
            1,-*) ;;
            *)
                # The verb, the name, and the first word of COMMAND.
                ((++seen))
                [[ $seen -eq 1 && $word != run && $word != try ]] && break
                [[ $seen -eq 3 ]] && break
                ;;
        esac
    done
    if [[ $seen -eq 3 || ($seen -eq 2 && $at -eq $COMP_CWORD && ($options -eq 0 || $2 != -*)) ]]; then
        if declare -F _command_offset >/dev/null; then
            _command_offset "$at"
        elif [[ $at -eq $COMP_CWORD ]]; then
            mapfile -t COMPREPLY < <(compgen -c -- "$2")
        else
            # Files, by `-o default`.
            COMPREPLY=()
        fi
    else
        _pglock "$@"
    fi
}
complete -F _pglock_or_command -o bashdefault -o default pglock
