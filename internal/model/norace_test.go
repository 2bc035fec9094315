//go:build !race

package model

const underRace = false
