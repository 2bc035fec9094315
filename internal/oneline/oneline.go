// Package oneline writes errors, lists, and the texts of servers so that each stays on one line of
// bounded length, as logs need it.
package oneline

import "strings"

// Join is errors.Join, but for its text: that has "; " where errors.Join has line breaks, and
// where the errors have some of their own. Of more than five errors the text has the first five.
func Join(errs ...error) error {
	var all []error // without an error nothing is allocated
	for _, err := range errs {
		if err != nil {
			all = append(all, err)
		}
	}
	if all == nil {
		return nil
	}
	return &joined{all}
}

// Text is an error's text with "; " in the place of line breaks.
func Text(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// Texts joins the texts of a few of several errors.
func Texts(errs []error) string {
	few, more := Few(errs)
	texts := make([]string, len(few))
	for i, err := range few {
		texts[i] = Text(err)
	}
	return strings.Join(texts, "; ") + more
}

type joined struct{ errs []error }

func (j *joined) Error() string { return Texts(j.errs) }

func (j *joined) Unwrap() []error { return j.errs }
