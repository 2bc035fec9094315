package main

import (
	"fmt"
	"strings"
)

const bashHead = `# bash completion for redlock; made by redlock completion bash
_redlock() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} i
    local flags='--help' valued='' words='' command=''
    COMPREPLY=()
    if (( COMP_CWORD == 1 )); then
        COMPREPLY=( $(compgen -W '%s --help --version' -- "$cur") )
        return
    fi
    case ${COMP_WORDS[1]} in
`

const bashTail = `    esac
    for (( i = 2; i < COMP_CWORD; i++ )); do
        if [[ ${COMP_WORDS[i]} == -- ]]; then
            [[ -n $command ]] || return
            if (( i + 1 < COMP_CWORD )) && [[ ${COMP_WORDS[i+1]} == redlock ]]; then
                COMP_WORDS=( "${COMP_WORDS[@]:i+1}" )
                (( COMP_CWORD -= i + 1 ))
                _redlock
            elif (( i + 1 == COMP_CWORD )); then
                COMPREPLY=( $(compgen -c -- "$cur") )
            else
                compopt -o default 2>/dev/null # files
            fi
            return
        fi
    done
    case " $valued " in
    *" $prev "*) return ;; # what a flag is given is not known
    esac
    if [[ $cur == -* ]]; then
        COMPREPLY=( $(compgen -W "$flags" -- "$cur") )
    else
        COMPREPLY=( $(compgen -W "$words" -- "$cur") )
    fi
}
complete -F _redlock redlock
`

func bashCompletion(all []subcommand) string {
	var b strings.Builder
	fmt.Fprintf(&b, bashHead, strings.Join(names(all), " "))
	fmt.Fprintf(&b, "    help) words='%s' ;;\n", strings.Join(names(all)[1:], " "))
	for _, cmd := range all {
		flags, valued, command := []string{"--help"}, []string{}, ""
		for _, o := range newFlagSet(cmd).all() {
			flags = append(flags, "--"+o.name)
			if o.arg != "" {
				valued = append(valued, "--"+o.name)
			}
		}
		if cmd.takesCommand() {
			command = "yes"
		}
		fmt.Fprintf(&b, "    %s) flags='%s' valued='%s' words='%s' command='%s' ;;\n",
			cmd.name, strings.Join(flags, " "), strings.Join(valued, " "), strings.Join(cmd.choices, " "), command)
	}
	return b.String() + bashTail
}

const zshHead = `#compdef redlock
# zsh completion for redlock; made by redlock completion zsh
_redlock() {
    local -a commands
    commands=(
`

const zshMiddle = `    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    local -i behind=${words[(i)--]}
    if (( behind < CURRENT )); then
        if [[ " %s " == *" $command "* ]]; then
            shift $behind words
            (( CURRENT -= behind ))
            _normal
        fi
        return
    fi
    case $command in
    help) _describe command commands ;;
`

const zshTail = `    esac
}
if [[ $funcstack[1] == _redlock ]]; then
    _redlock "$@" # it was loaded when it was needed
else
    compdef _redlock redlock
fi
`

func zshCompletion(all []subcommand) string {
	var b strings.Builder
	b.WriteString(zshHead)
	fmt.Fprintf(&b, "        %s\n", quoted("help:"+helpSummary))
	for _, cmd := range all {
		fmt.Fprintf(&b, "        %s\n", quoted(cmd.name+":"+cmd.summary))
	}
	fmt.Fprintf(&b, zshMiddle, strings.Join(takers(all), " "))
	for _, cmd := range all {
		fmt.Fprintf(&b, "    %s) _arguments", cmd.name)
		for _, o := range newFlagSet(cmd).all() {
			spec := "--" + o.name
			if o.arg != "" {
				spec += "="
			}
			spec += "[" + zshPlain(firstLine(o.usage)) + "]"
			if o.arg != "" {
				spec += ":" + zshPlain(o.arg) + ":"
			}
			fmt.Fprintf(&b, " \\\n        %s", quoted(spec))
		}
		b.WriteString(" \\\n        '(- *)--help[say how it is used]'")
		switch {
		case cmd.takesCommand():
			b.WriteString(" \\\n        '1:NAME:'")
		case cmd.choices != nil:
			fmt.Fprintf(&b, " \\\n        %s", quoted("1: :("+strings.Join(cmd.choices, " ")+")"))
		case cmd.args != "":
			fmt.Fprintf(&b, " \\\n        %s", quoted("1:"+zshPlain(cmd.args)+":"))
		}
		b.WriteString(" ;;\n")
	}
	return b.String() + zshTail
}

// zshPlain takes away the meaning that characters have in what _arguments is given.
func zshPlain(text string) string {
	return strings.NewReplacer(`\`, `\\`, ":", `\:`, "[", `\[`, "]", `\]`).Replace(text)
}

// quoted is a text between single quotes, for bash and zsh.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

const fishHead = `# fish completion for redlock; made by redlock completion fish
function __redlock_is -d 'the subcommand is this one'
    set -l words (commandline -opc)
    test (count $words) -gt 1; and test $words[2] = $argv[1]
end
function __redlock_behind -d 'what stands behind the first --'
    set -l words (commandline -opc)
    set -l at (contains -i -- -- $words)
    or return
    test $at -lt (count $words); and string escape -- $words[(math $at + 1)..]
    return 0
end
function __redlock_command -d 'complete the command behind --'
    complete -C (string join ' ' -- (__redlock_behind) (commandline -ct))
end
complete -c redlock -f
complete -c redlock -n __fish_use_subcommand -l help -d 'say how it is used'
complete -c redlock -n __fish_use_subcommand -l version -d 'say which redlock this is'
complete -c redlock -n __fish_use_subcommand -a help -d '` + helpSummary + `'
`

func fishCompletion(all []subcommand) string {
	var b strings.Builder
	b.WriteString(fishHead)
	for _, cmd := range all {
		fmt.Fprintf(&b, "complete -c redlock -n __fish_use_subcommand -a %s -d %s\n", cmd.name, fishQuoted(cmd.summary))
	}
	fmt.Fprintf(&b, "complete -c redlock -n '__redlock_is help' -a '%s'\n", strings.Join(names(all)[1:], " "))
	for _, cmd := range all {
		when := fishQuoted("__redlock_is " + cmd.name)
		fmt.Fprintf(&b, "complete -c redlock -n %s -l help -d 'say how it is used'\n", when)
		for _, o := range newFlagSet(cmd).all() {
			needs := ""
			if o.arg != "" {
				needs = " -x"
			}
			fmt.Fprintf(&b, "complete -c redlock -n %s -l %s%s -d %s\n", when, o.name, needs, fishQuoted(firstLine(o.usage)))
		}
		if cmd.choices != nil {
			fmt.Fprintf(&b, "complete -c redlock -n %s -a '%s'\n", when, strings.Join(cmd.choices, " "))
		}
		if cmd.takesCommand() {
			fmt.Fprintf(&b, "complete -c redlock -n '__redlock_is %s; and __redlock_behind >/dev/null' -a '(__redlock_command)'\n", cmd.name)
		}
	}
	return b.String()
}

// fishQuoted is a text between single quotes, for fish.
func fishQuoted(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}
