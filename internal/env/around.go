package env

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/quorumlock/go-redlock/pool"
)

// checkAround returns an error for a URL that is not valid because of what stands around it, as an editor
// or a file of variables leaves it there. pool.ParseURL can't tell it from a character of a password that
// is not encoded. The error shows no part of the URL, which may contain a password.
func checkAround(urls []string) error {
	if last := len(urls) - 1; last > 0 && around(urls[0]) == beginsWithQuote && around(urls[last]) == endsWithQuote {
		return errors.New("the list of nodes is in quotes: remove them")
	}
	for i, url := range urls {
		if _, err := pool.ParseURL(url); err == nil {
			continue
		}
		if what := around(url); what != "" {
			return fmt.Errorf("node %d %s", i+1, what)
		}
	}
	return nil
}

const (
	beginsWithQuote = "begins with a quote: remove it"
	endsWithQuote   = "ends with a quote: remove it"
	byteOrderMark   = '\ufeff'
)

var (
	comment = regexp.MustCompile(`\s#`)
	scheme  = regexp.MustCompile(`(rediss?(\+(sentinel|cluster))?|unix)://`)
)

// around says what stands around a URL, "" for nothing.
func around(url string) string {
	first, _ := utf8.DecodeRuneInString(url)
	last, _ := utf8.DecodeLastRuneInString(url)
	begins, ends := isQuote(first), isQuote(last)
	switch at := scheme.FindStringIndex(url); {
	case !utf8.ValidString(url):
		return "is not UTF-8: save the file as UTF-8"
	case first == byteOrderMark:
		return "begins with a byte order mark: save the file without it"
	case strings.ContainsFunc(url, isInvisible):
		return "contains an invisible character: remove it"
	case first == '#':
		return "is a comment (#): remove it"
	case comment.MatchString(url):
		return "is followed by a comment (#): remove it"
	case begins && ends:
		return "is in quotes: remove them"
	case begins:
		return beginsWithQuote
	case ends:
		return endsWithQuote
	case at != nil && at[0] > 0:
		return "does not begin with its scheme: remove what stands before it"
	}
	return ""
}

func isQuote(r rune) bool { return strings.ContainsRune("\"'`“”„‘’‚«»", r) }

// isInvisible reports whether a character is one that no URL contains, and that nobody sees.
func isInvisible(r rune) bool { return !unicode.IsPrint(r) && !unicode.IsSpace(r) }
