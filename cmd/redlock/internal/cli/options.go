package cli

import (
	"regexp"
	"strings"
)

// flagOf has the flag that sets an option of the library.
var flagOf = map[string]string{
	"WithKeyPrefix":    "--prefix",
	"WithMaxTTL":       "the most without --guard",
	"WithMinHold":      "--min-hold",
	"WithOwner":        "--owner",
	"WithRestartGuard": "--guard",
}

// An option may have its value behind it: in parentheses, and in quotes if it is a text.
var option = regexp.MustCompile(`\b(With[A-Z]\w+)(\(("(\\.|[^"\\])*"|[^()"]*)\))?`)

// withFlags replaces options in an error of the library by flags.
func withFlags(text string) string {
	text = strings.ReplaceAll(text, "WithRestartGuard (redlock --guard)", "--guard")
	return option.ReplaceAllStringFunc(text, func(found string) string {
		name, value, _ := strings.Cut(found, "(")
		flag, known := flagOf[name]
		switch {
		case !known:
			return found
		case value == "":
			return flag
		}
		return flag + " " + strings.TrimSuffix(value, ")")
	})
}
