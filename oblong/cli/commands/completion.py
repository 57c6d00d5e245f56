"""``oblong completion``: the Tab key of a shell.

Print a script for completing commands, options and files in a shell.

examples:
  source <(oblong completion bash)          for this shell; in ~/.bashrc for every one
  source <(oblong completion zsh)           in ~/.zshrc, after compinit
  oblong completion fish > ~/.config/fish/completions/oblong.fish
"""  # noqa: D405, D406, D407

from __future__ import annotations

import argparse

from oblong.cli.shared.options import add_command

_BASH = """\
_oblong() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" words
    case "${{COMP_WORDS[1]}}" in
{cases}
        *) words="" ;;
    esac
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{commands} --help --version" -- "$current"))
    elif [[ "$current" == -* ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$current"))
    else
        COMPREPLY=($(compgen -f -- "$current"))
    fi
}}
complete -o filenames -F _oblong oblong
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = add_command(subparsers, "completion", __doc__)
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="which shell")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    options = _options()
    if args.shell == "fish":
        names = " ".join(options)
        print(f"complete -c oblong -n __fish_use_subcommand -f -a '{names}'")
        for name, words in options.items():
            for word in words:
                kind = f"-l {word[2:]}" if word.startswith("--") else f"-s {word[1:]}"
                print(f"complete -c oblong -n '__fish_seen_subcommand_from {name}' {kind}")
        return 0
    if args.shell == "zsh":
        print("autoload -U +X bashcompinit && bashcompinit")
    cases = "\n".join(f'        {n}) words="{" ".join(words)}" ;;' for n, words in options.items())
    print(_BASH.format(cases=cases, commands=" ".join(options)), end="")
    return 0


def _options() -> dict[str, list[str]]:
    """Options of every command that is installed."""
    from oblong.cli import command_parsers

    return {
        name: sorted(word for action in parser._actions for word in action.option_strings)
        for name, parser in command_parsers().items()
    }
