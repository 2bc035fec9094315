package main

import (
	"fmt"
	"slices"
	"strings"
)

// synonyms are words that other programs have for the subcommands.
var synonyms = map[string]string{"ls": "list", "lock": "acquire", "unlock": "release"}

// didYouMean returns a hint at the known word that an unknown one means or resembles, or an empty text. A
// word resembles another if it begins it, or differs from it by a third of its letters at most, or by one
// letter if it has two.
func didYouMean(word, dashes string, known []string) string {
	best := synonyms[word]
	if !slices.Contains(known, best) {
		best = resembling(word, known)
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(": did you mean %s%s?", dashes, best)
}

func resembling(word string, known []string) string {
	best, least := "", len(word)/3+1
	if len(word) == 2 {
		least = 2
	}
	for _, k := range known {
		d := distance(word, k)
		if len(word) > 1 && strings.HasPrefix(k, word) {
			d = 0
		}
		if d < least {
			best, least = k, d
		}
	}
	return best
}

// distance returns the number of letters to insert, delete, replace or swap with their neighbour that
// make a of b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replaced := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, replaced)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
