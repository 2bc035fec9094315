//go:build race

package model

// underRace is whether the race detector is on. It finds nothing in a search on one
// goroutine and makes it eight times slower: only some of the searches are made then, to
// narrower bounds, and `make test-model` makes all of them without it.
const underRace = true
