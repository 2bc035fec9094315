//go:build race

package model

// underRace reports whether the race detector is on. It finds nothing in a search on one goroutine,
// and makes it eight times slower. So only some searches are made then, to narrower bounds. `make
// test-model` makes all of them without it.
const underRace = true
