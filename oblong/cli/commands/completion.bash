_oblong() {
    local current="${COMP_WORDS[COMP_CWORD]}" words
    case "${COMP_WORDS[1]}" in
@cases@
        *) words="" ;;
    esac
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "@commands@ --help --version" -- "$current"))
    elif [[ "$current" == -* ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$current"))
    else
        COMPREPLY=($(compgen -f -- "$current"))
    fi
}
complete -o filenames -F _oblong oblong
