package main

import (
	"fmt"
	"strings"
)

const bashHead = `# bash completion for redlock; made by redlock completion bash
_redlock_names() {
    local line=${COMP_LINE:0:COMP_POINT} cur=${COMP_WORDS[COMP_CWORD]} words name before
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=('')
    # Bash replaces only what is behind the last : or =
    before=${words[${#words[@]}-1]}
    before=${before%%"${cur#[:=]}"}
    while IFS= read -r name; do
        printf -v name %%q "${name#"$before"}"
        COMPREPLY+=( "$name" )
    done < <("${words[0]}" __names "${words[@]:1}" 2>/dev/null)
}
_redlock() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} i rest
    local flags='--help -h' valued='' words='' held='' command=''
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
                rest=${COMP_LINE#* -- }
                (( COMP_POINT -= ${#COMP_LINE} - ${#rest} ))
                COMP_LINE=$rest
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
    elif [[ -n $held ]]; then
        _redlock_names
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
		flags, valued, held, command := helpOption.words(), []string{}, "", ""
		for _, o := range newFlagSet(cmd).all() {
			flags = append(flags, o.words()...)
			if o.arg != "" {
				valued = append(valued, o.words()...)
			}
		}
		if cmd.heldName {
			held = "yes"
		}
		if cmd.takesCommand() {
			command = "yes"
		}
		fmt.Fprintf(&b, "    %s) flags='%s' valued='%s' words='%s' held='%s' command='%s' ;;\n",
			cmd.name, strings.Join(flags, " "), strings.Join(valued, " "), strings.Join(cmd.choices, " "), held, command)
	}
	return b.String() + bashTail
}

const zshHead = `#compdef redlock
# zsh completion for redlock; made by redlock completion zsh
_redlock_names() {
    local -a found
    found=( ${(f)"$("$typed_words[1]" __names "${(@)typed_words[2,-1]}" 2>/dev/null)"} )
    compadd "$@" -a found
}
_redlock() {
    local -a commands typed_words
    typed_words=( "${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}" )
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
			for _, word := range o.words() {
				fmt.Fprintf(&b, " \\\n        %s", quoted(zshSpec(o, word)))
			}
		}
		for _, word := range helpOption.words() {
			fmt.Fprintf(&b, " \\\n        '(- *)%s[%s]'", word, helpOption.usage)
		}
		switch {
		case cmd.takesCommand():
			b.WriteString(" \\\n        '1:NAME:'")
		case cmd.heldName:
			b.WriteString(" \\\n        '1:NAME:_redlock_names'")
		case cmd.choices != nil:
			fmt.Fprintf(&b, " \\\n        %s", quoted("1: :("+strings.Join(cmd.choices, " ")+")"))
		case cmd.args != "":
			fmt.Fprintf(&b, " \\\n        %s", quoted("1:"+zshPlain(cmd.args)+":"))
		}
		b.WriteString(" ;;\n")
	}
	return b.String() + zshTail
}

// zshSpec describes one word of a flag for _arguments.
func zshSpec(o option, word string) string {
	excluded := ""
	if o.letter != "" {
		excluded = "(" + strings.Join(o.words(), " ") + ")"
	}
	spec := excluded + word
	switch {
	case o.arg == "":
	case strings.HasPrefix(word, "--"):
		spec += "="
	default:
		spec += "+"
	}
	spec += "[" + zshPlain(firstLine(o.usage)) + "]"
	if o.arg != "" {
		spec += ":" + zshPlain(o.arg) + ":"
	}
	return spec
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
function __redlock_names -d 'names that are held'
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    $words[1] __names $words[2..] "$typed" 2>/dev/null
end
function __redlock_command -d 'complete the command behind --'
    complete -C (string join ' ' -- (__redlock_behind) (commandline -ct))
end
complete -c redlock -f
complete -c redlock -n __fish_use_subcommand -s h -l help -d 'say how it is used'
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
		fmt.Fprintf(&b, "complete -c redlock -n %s -s h -l help -d 'say how it is used'\n", when)
		for _, o := range newFlagSet(cmd).all() {
			needs := ""
			if o.letter != "" {
				needs = " -s " + o.letter
			}
			if o.arg != "" {
				needs += " -x"
			}
			fmt.Fprintf(&b, "complete -c redlock -n %s -l %s%s -d %s\n", when, o.name, needs, fishQuoted(firstLine(o.usage)))
		}
		if cmd.choices != nil {
			fmt.Fprintf(&b, "complete -c redlock -n %s -a '%s'\n", when, strings.Join(cmd.choices, " "))
		}
		if cmd.heldName {
			fmt.Fprintf(&b, "complete -c redlock -n %s -a '(__redlock_names)'\n", when)
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
