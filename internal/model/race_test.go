//go:build race

package model

// underRace is whether the race detector is on. It finds nothing in a search on one
// goroutine and makes it eight times slower: the bounds are narrower then, and
// `make test-model` searches once more without it.
const underRace = true
