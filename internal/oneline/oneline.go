// Package oneline joins errors whose text stays on one line, as logs need it.
package oneline

import (
	"errors"
	"strings"
)

// Join is errors.Join, but for its text: that has "; " where errors.Join has line breaks, and
// where the errors have some of their own.
func Join(errs ...error) error {
	if err := errors.Join(errs...); err != nil {
		return joined{err}
	}
	return nil
}

// Text is an error's text with "; " in the place of line breaks.
func Text(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

type joined struct{ error }

func (j joined) Error() string { return Text(j.error) }

func (j joined) Unwrap() error { return j.error }
